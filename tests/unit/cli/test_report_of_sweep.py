"""``memlake report`` of the results of ``memlake sweep``."""

import errno
import json
import os
import subprocess
import sys

import pytest

from helpers.sweeps import write_ranks
from memlake.cli import main


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A folder with the results file and the table of a sweep."""
    folder = tmp_path_factory.mktemp("swept")
    results, table = ["--results", str(folder / "sweep.jsonl")], ["--output", str(folder / "sweep.csv")]
    ranks = write_ranks(tmp_path_factory.mktemp("run"), 3, 150)
    assert main(["sweep", str(ranks), "--capacities", "240MiB", "1GiB", *results, *table]) in (0, 1)
    return folder


@pytest.fixture
def here(swept, tmp_path, monkeypatch):
    """A working directory of its own with copies of the files."""
    for path in swept.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["sweep.jsonl", "sweep.csv"])
def test_one_page_is_written_with_the_answer_of_the_sweep(here, capsys, name):
    assert main(["report", name]) == 0
    assert "Wrote report.html" in capsys.readouterr().out
    page = (here / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "caching on 1 GiB serves all 3 ranks" in page


def test_json_is_that_of_the_sweep(here, capsys):
    assert main(["report", "sweep.jsonl", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["title"], printed["outcome"], len(printed["ranks"])) == ("sweep.jsonl", "ok", 3)
    assert not (here / "report.html").exists()


def test_files_that_the_sweep_could_not_read_are_named_and_give_2(here, capsys):
    ranks = write_ranks(here / "run", 2, 60)
    (ranks / "rank2.npz").write_bytes(b"PK\3\4")
    assert main(["sweep", str(ranks), "--capacities", "1GiB", "--results", "bad.jsonl"]) == 2
    capsys.readouterr()
    assert main(["report", "bad.jsonl"]) == 2
    assert "rank2.npz" in capsys.readouterr().err
    assert "rank2.npz" in (here / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["sweep.jsonl", "sweep.csv"], "has the results of a sweep, and 2 files were given"),
        (["sweep.jsonl", "--capacity", "80GiB"], "--capacity is for traces"),
        (["sweep.jsonl", "--without-stacks"], "--without-stacks is for traces"),
        (["sweep.jsonl", "--policy", "lake"], "--policy is for traces"),
        (["sweep.jsonl", "--device", "0"], "--device is for traces"),
        (["sweep.jsonl", "--diff"], "--diff is for traces"),
        (["torn.jsonl"], "of 30 results"),
        (["torn.csv"], "its last line is not whole"),
        (["damaged.jsonl"], "is damaged: line 6 of 32"),
        (["foreign.jsonl"], "is no results file of a sweep"),
        (["empty.jsonl"], "is no results file of a sweep"),
        (["folder.jsonl"], "folder.jsonl"),
        (["missing.jsonl"], "there is no file"),
    ],
)
def test_bad_input_is_one_sentence_with_a_hint_and_leaves_nothing(here, capsys, arguments, reason):
    whole, table = (here / "sweep.jsonl").read_bytes(), (here / "sweep.csv").read_bytes()
    lines = whole.splitlines(keepends=True)
    (here / "torn.jsonl").write_bytes(whole[: len(whole) // 2])
    (here / "torn.csv").write_bytes(table[: len(table) // 2])
    (here / "damaged.jsonl").write_bytes(b"".join([*lines[:5], lines[5].replace(b"row", b"raw"), *lines[6:]]))
    (here / "foreign.jsonl").write_text('{"step": 1, "loss": 2.5}\n')
    (here / "empty.jsonl").touch()
    (here / "folder.jsonl").mkdir()
    before = sorted(path.name for path in here.iterdir())
    assert main(["report", *arguments]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("memlake: error: ")
    assert reason in said.err
    assert "hint: " in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert sorted(path.name for path in here.iterdir()) == before


def test_a_full_disk_leaves_no_partial_page(here):
    # A limit on the size of files is the disk that is full; Python ignores its signal, so writing fails.
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); from memlake.cli import main; "
        "sys.exit(main(['report', 'sweep.jsonl']))"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=here, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"memlake: error: cannot write 'report.html': {os.strerror(errno.EFBIG)}; hint: ")
    assert sorted(path.name for path in here.iterdir()) == ["sweep.csv", "sweep.jsonl"]
