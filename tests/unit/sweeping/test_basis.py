"""The basis of results: another build of the same version, or other costs, make other results."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import memlake
from memlake.sweeping.basis import basis_of_results

ASK = "from memlake.sweeping.basis import basis_of_results; print(basis_of_results())"


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A copy of the installed package, which may be changed."""
    folder = tmp_path_factory.mktemp("other")
    shutil.copytree(Path(memlake.__file__).parent, folder / "memlake")
    return folder


def basis_in(folder, **environment):
    command = [sys.executable, "-c", ASK]
    done = subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(folder), **environment}, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def test_the_same_files_in_another_place_have_the_same_basis(other):
    assert basis_in(other) == basis_of_results()


def test_another_line_of_code_that_replays_is_another_basis(other):
    path = other / "memlake/replaying/running.py"
    before = path.read_bytes()
    path.write_bytes(before + b"# another build\n")
    assert basis_in(other) != basis_of_results()
    path.write_bytes(before)
    assert basis_in(other) == basis_of_results()


def test_another_core_is_another_basis(other):
    path = other / "memlake/lib/libmemlake.so"
    before = path.read_bytes()
    path.write_bytes(before + b"\0")
    assert basis_in(other) != basis_of_results()
    path.write_bytes(before)


def test_other_costs_are_another_basis(other, tmp_path):
    costs = tmp_path / "costs.json"
    name = next(iter(memlake._native.cost_model()))
    costs.write_text(json.dumps({name: 4711.0}))
    assert basis_in(other, MEMLAKE_COSTS=str(costs)) != basis_of_results()


def test_a_sweep_of_another_build_of_the_same_version_computes_everything_again(other, four, tmp_path):
    results = tmp_path / "results.jsonl"
    memlake.sweep(four, "1GiB", "lake", results=results)
    path = other / "memlake/sweeping/task.py"
    path.write_bytes(path.read_bytes() + b"# another build\n")
    sweep = f"import memlake; memlake.sweep({str(four)!r}, '1GiB', 'lake', results={str(results)!r})"
    environment = {"PYTHONPATH": str(other)}
    assert subprocess.run([sys.executable, "-c", sweep], cwd=other, env=environment).returncode == 0
    lines = [json.loads(line) for line in results.read_text().splitlines()[1:]]
    assert len({line["key"] for line in lines if "key" in line}) == 8
    assert len({line["sweep"]["basis"] for line in lines if "sweep" in line}) == 2
