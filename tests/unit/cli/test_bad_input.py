"""Bad input to the commands that write files: one sentence with a hint, exit code 2, no partial file, no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.torch_snapshots import scattered_job
from memlake.cli import main

FORMATS = ["npz", "pickle", "txt", "txt.gz", "csv", "rmm.csv", "perfetto.json", "perfetto.json.gz"]
NO_PLACE = "/proc/{name}"
"""A folder into which nobody may write, root included."""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with files that are good, empty, damaged and foreign."""
    monkeypatch.chdir(tmp_path)
    scattered_job().save(tmp_path / "good.pickle")
    (tmp_path / "empty.txt").write_text("# nothing\ns 1\n")
    (tmp_path / "torn.pickle").write_bytes((tmp_path / "good.pickle").read_bytes()[:300])
    (tmp_path / "foreign.bin").write_bytes(b"\x7fELF\x02\x01\x01\x00" * 20)
    (tmp_path / "nothing.npz").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "old.npz").write_text("old")
    return tmp_path


def assert_refused(said, code, reason, before, folder):
    assert code == 2
    assert said.startswith("memlake: error: ")
    assert reason in said
    assert "; hint: " in said
    assert said.count("\n") == 1
    assert "Traceback" not in said
    assert sorted(path.name for path in folder.iterdir()) == before
    assert (folder / "old.npz").read_text() == "old"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["convert", "good.pickle", NO_PLACE.format(name="out.npz")], "cannot write"),
        (["convert", "good.pickle", NO_PLACE.format(name="out.perfetto.json")], "cannot write"),
        (["convert", "/proc/self/mem", "out.npz"], "cannot be read"),
        (["convert", "missing.pickle", "out.npz"], "there is no file 'missing.pickle'"),
        (["convert", "", "out.npz"], "name is empty"),
        (["convert", "a\0b", "out.npz"], "NUL character"),
        (["convert", "folder", "out.npz"], "is a directory"),
        (["convert", "torn.pickle", "out.npz"], "torn.pickle"),
        (["convert", "foreign.bin", "out.npz"], "is no file that memlake knows"),
        (["convert", "nothing.npz", "out.npz"], "is empty"),
        (["convert", "good.pickle", "old.npz"], "exists"),
        (["convert", "good.pickle", "folder"], "does not say in which format"),
        (["convert", "good.pickle", "folder.npz/x.npz"], "there is no directory"),
        (["convert", "good.pickle", "out.xyz"], "does not say in which format"),
        (["convert", "good.pickle", "o\0.npz"], "is no name of a file"),
        (["convert", "good.pickle", "x" * 300 + ".npz"], "is no name of a file"),
        (["convert", "good.pickle", "out.npz", "--device", "7"], "says nothing of device 7"),
        (["convert", "good.pickle", "out.npz", "--device", "x"], "--device must be"),
        (["convert", "good.pickle", "out.npz", "--capacity", "1GiB"], "--capacity is for Perfetto files"),
        (["convert", "train_moe", "out.npz", "--device", "0"], "is an example"),
        (["convert", "empty.txt", "out.npz", "--device", "0"], "only PyTorch snapshots know devices"),
        (["convert", "empty.txt", "out.perfetto.json"], "has no allocations"),
        (["convert", "train_moe", "out.perfetto.json", "--capacity", "4MiB"], "can never have"),
        (["convert", "train_moe", "out.perfetto.json", "--capacity", "1"], "capacity must be between"),
        (["convert", "train_moe", "out.perfetto.json", "--capacity", "a1000000"], "is not a size"),
        (["report", "empty.txt"], "has no allocations"),
        (["report", "torn.pickle"], "torn.pickle"),
        (["report", "/proc/self/mem"], "cannot be read"),
        (["report", "good.pickle", "--capacity", "2MiB"], "can never have"),
        (["report", "good.pickle", "-o", NO_PLACE.format(name="out.html")], "cannot write"),
        (
            ["sweep", "empty.txt", "--capacities", "1GiB", "--results", NO_PLACE.format(name="r.jsonl")],
            "cannot be opened",
        ),
        (["sweep", "good.pickle", "--capacities", "1GiB", "--results", "torn.pickle"], "is no results file of a sweep"),
        (["sweep", "good.pickle", "--capacities", "1GiB", "--output", "out.xyz"], "does not say in which format"),
        (["sweep", "good.pickle", "--capacities", "many"], "is not a size"),
        (["sweep", "good.pickle", "--capacities", "1GiB", "--policies", "magic"], "magic"),
        (["sweep", "good.pickle", "--capacities", "1GiB", "--engine", "dask"], "ddress"),
        (["sweep", "folder", "--capacities", "1GiB"], "is a directory without snapshots"),
        (["top", "--once", "--interval", "0"], "--interval must be"),
    ],
)
def test_bad_input_is_one_sentence_with_a_hint_and_leaves_nothing(here, capsys, arguments, reason):
    before = sorted(path.name for path in here.iterdir())
    code = main(arguments)
    said = capsys.readouterr()
    assert_refused(said.err, code, reason, before, here)
    assert said.out == ""


def test_a_sweep_of_a_file_without_allocations_names_it(here, capsys):
    before = sorted(path.name for path in here.iterdir())
    code = main(["sweep", "empty.txt", "--capacities", "1GiB", "--results", "results.jsonl"])
    assert_refused(capsys.readouterr().err, code, "has no allocations", before, here)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_a_sentence(here, capsys):
    (here / "good.pickle").chmod(0)
    before = sorted(path.name for path in here.iterdir())
    for command in (["convert", "good.pickle", "out.npz"], ["report", "good.pickle"]):
        code = main(command)
        assert_refused(capsys.readouterr().err, code, os.strerror(13), before, here)


@pytest.mark.parametrize("ending", FORMATS)
def test_a_full_disk_leaves_no_partial_file_of_any_format(here, ending):
    # A limit on the size of files is the disk that is full; Python ignores its signal, so writing fails.
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); from memlake.cli import main; "
        f"sys.exit(main(['convert', 'good.pickle', 'out.{ending}']))"
    )
    before = sorted(path.name for path in here.iterdir())
    ran = subprocess.run([sys.executable, "-c", script], cwd=here, capture_output=True, text=True, check=False)
    assert_refused(ran.stderr, ran.returncode, f"cannot write 'out.{ending}'", before, here)


def test_a_result_that_cannot_be_printed_is_one_sentence(here):
    command = [sys.executable, "-m", "memlake", "show", "good.pickle"]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(command, cwd=here, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    before = sorted(path.name for path in here.iterdir())
    assert_refused(ran.stderr, ran.returncode, "cannot write the result: No space left on device", before, here)
