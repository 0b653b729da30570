"""``memlake sweep``."""

import csv
import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

import memlake
from helpers.sweeps import write_ranks
from memlake.cli import main

CAPACITIES = ["--capacities", "224MiB", "256MiB"]
POLICIES = ["--policies", "lake", "max_split_size_mb:32"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory: a folder with the traces of three ranks is in it."""
    monkeypatch.chdir(tmp_path)
    write_ranks(tmp_path / "run", 3)
    return tmp_path


def test_it_prints_a_table_by_rank_and_setting_the_worst_rank_and_the_setting_for_all(folder, capsys):
    assert main(["sweep", "run", *CAPACITIES, *POLICIES]) == 0
    said = capsys.readouterr()
    expected = memlake.sweep("run", ["224MiB", "256MiB"], ["lake", "max_split_size_mb:32"])
    assert said.out == expected.to_text() + "\n"
    assert said.err == ""
    text = " ".join(said.out.split())
    assert "rank live peak lake caching (max_split_size_mb:32)" in text
    assert "lake 224 MiB" in text
    assert expected.sentence in text


def test_json_has_every_figure(folder, capsys):
    assert main(["sweep", "run", *CAPACITIES, *POLICIES, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = memlake.sweep("run", ["224MiB", "256MiB"], ["lake", "max_split_size_mb:32"])
    assert found == {"traces": ["run"]} | expected.to_json()
    assert [len(rank["results"]) for rank in found["ranks"]] == [4, 4, 4]
    assert found["best"] in found["settings"]


def test_results_are_kept_beside_the_program_and_used_again(folder, capsys):
    main(["sweep", "run", *CAPACITIES, *POLICIES])
    first = capsys.readouterr().out
    size = (folder / "memlake_sweep.jsonl").stat().st_size
    main(["sweep", "run", *CAPACITIES, *POLICIES])
    assert capsys.readouterr().out == first
    assert (folder / "memlake_sweep.jsonl").stat().st_size == size


def test_the_table_is_written_once_and_replaced_only_on_demand(folder, capsys):
    command = ["sweep", "run", *CAPACITIES, *POLICIES, "--output", "table.csv"]
    assert main(command) == 0
    with (folder / "table.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 12
    assert "memlake: wrote table.csv" in capsys.readouterr().err
    assert main(command) == 2
    assert "exists; hint: choose another name, or replace it with --force" in capsys.readouterr().err
    assert main([*command, "--force"]) == 0


@pytest.mark.parametrize(
    ("capacity", "code"),
    [("1GiB", 0), ("64MiB", 1)],
)
def test_the_exit_code_says_whether_one_setting_serves_all(folder, capsys, capacity, code):
    assert main(["sweep", "run", "--capacities", capacity, "--policies", "lake"]) == code


def test_a_file_that_cannot_be_read_is_exit_code_2_and_the_others_are_answered(folder, capsys):
    (folder / "run" / "rank1.npz").write_bytes(b"nonsense")
    assert main(["sweep", "run", "--capacities", "1GiB", "--policies", "lake"]) == 2
    said = capsys.readouterr()
    assert "run/rank1.npz" in said.err
    assert "lake on 1 GiB serves all 2 ranks" in " ".join(said.out.split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run"], "--capacities"),
        (["run", "--capacities", "1GiB", "--engine", "slurm"], "invalid choice: 'slurm'"),
        (["run", "--capacities", "1GiB", "--address", "tcp://host:1"], "the local engine has no address"),
        (["run", "--capacities", "1GiB", "--output", "table.xlsx"], "hint: end it with .csv or .parquet"),
        (["run", "--capacities", "1GiB", "--output", "no/table.csv"], "there is no directory 'no'"),
        (
            ["run", "--capacities", "1GiB", "--results", "no/results"],
            "cannot be opened: No such file or directory; hint:",
        ),
        (["run", "--capacities", "1GiB", "--results", "run/rank0.npz"], "is no results file of a sweep; hint: "),
        (["run", "--capacities", "1GiB", "--device", "x"], "--device must be a device's number"),
        (["nothing", "--capacities", "1GiB"], "there is no such file"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(folder, capsys, arguments, says):
    try:
        code = main(["sweep", *arguments])
    except SystemExit as end:
        code = end.code
    said = capsys.readouterr()
    assert code == 2
    assert says in said.err
    assert said.out == ""
    assert "Traceback" not in said.err
    assert [path.name for path in folder.iterdir()] == ["run"]


def test_a_folder_that_may_not_be_written_to_is_a_sentence(folder, capsys):
    if os.geteuid() == 0:
        pytest.skip("root may write to every folder")
    (folder / "run").chmod(0o500)
    assert main(["sweep", "run", "--capacities", "1GiB", "--results", "run/results.jsonl"]) == 2
    assert "Permission denied; hint: " in capsys.readouterr().err


LIMITED = """
import resource, sys
from memlake.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("full", ["results", "output"])
def test_a_full_disk_is_one_sentence_and_leaves_no_partial_file(folder, full):
    command = ["sweep", "run", *CAPACITIES, *POLICIES, "--results", "results.jsonl", "--output", "table.csv"]
    if full == "output":
        assert main(command[:-2]) == 0  # nothing is added to the results afterwards
    done = subprocess.run([sys.executable, "-c", LIMITED, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert "File too large" in done.stderr
    assert "hint: " in done.stderr
    # A results file without a single result is not left behind.
    assert sorted(path.name for path in folder.iterdir()) == ["results.jsonl", "run"][full == "results" :]
    assert main([*command[:-2]]) == 0


def test_on_a_terminal_it_shows_progress_and_ctrl_c_ends_it_with_130_and_the_results_stay(tmp_path):
    write_ranks(tmp_path / "run", 8, 4000)
    command = [sys.executable, "-m", "memlake", "sweep", "run", "--capacities", "224MiB", "256MiB"]
    ours, theirs = pty.openpty()
    sweep = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown = b""
    results = tmp_path / "memlake_sweep.jsonl"
    while b"sweeping [" not in shown:
        shown += os.read(ours, 1000)
    while results.read_bytes().count(b"\n") <= 2 and sweep.poll() is None:  # two lines say what is swept
        time.sleep(0.01)
    os.killpg(sweep.pid, signal.SIGINT)  # as a terminal does: also to the workers
    assert sweep.communicate()[0] == b""
    assert sweep.returncode == 130
    while True:
        try:
            shown += os.read(ours, 1000)
        except OSError:
            break
    os.close(ours)
    assert b"of 80" in shown
    assert b"memlake: interrupted" in shown
    assert b"Traceback" not in shown
    lines = results.read_text().splitlines()
    assert 2 < len(lines) < 82
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    after = results.read_text().splitlines()
    assert after[: len(lines)] == lines
    assert len(set(after)) == len(after) == 82
