"""``memlake report``: the file, the messages and the exit codes."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.torch_snapshots import roomy_job, scattered_job
from memlake.cli import main


@pytest.fixture
def snapshot(tmp_path):
    return scattered_job().save(tmp_path / "dead.pickle")


def test_one_page_is_written(snapshot, tmp_path, capsys):
    out = tmp_path / "report.html"
    assert main(["report", str(snapshot), "-o", str(out)]) == 0
    assert out.read_text().startswith("<!doctype html>")
    assert "Open it in a browser." in " ".join(capsys.readouterr().out.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dead.pickle", "report.html"]


def test_two_files_are_compared(snapshot, tmp_path):
    other = roomy_job().save(tmp_path / "other.pickle")
    out = tmp_path / "diff.html"
    assert main(["report", "--diff", str(snapshot), str(other), "-o", str(out)]) == 0
    assert '"diff":{' in out.read_text()


def test_json_is_printed_instead_of_a_page(snapshot, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(snapshot), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["files"][0]["outcome"] == "oom"
    assert not Path("report.html").exists()


def test_a_file_of_a_job_that_cannot_be_read_is_named_and_gives_2(snapshot, tmp_path, capsys):
    (tmp_path / "rank1.pickle").write_bytes(b"\x80\x04]")
    out = tmp_path / "report.html"
    assert main(["report", str(snapshot), str(tmp_path / "rank1.pickle"), "-o", str(out)]) == 2
    assert "rank1.pickle" in capsys.readouterr().err
    assert out.exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-o", "missing/report.html"], "there is no directory"),
        (["-o", "folder"], "is a directory"),
        (["-o", "old.html"], "exists"),
        (["--capacity", "512MiB"], "can never have"),
        (["--diff"], "--diff compares two files, and 1 were given"),
        (["--steps", "5", "2"], "--steps needs two numbers"),
        (["--steps", "70", "80"], "no step from 70 to 80 is known"),
    ],
)
def test_bad_input_is_one_sentence_with_a_hint(snapshot, tmp_path, monkeypatch, capsys, arguments, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "old.html").write_text("old")
    assert main(["report", str(snapshot), *arguments]) == 2
    told = capsys.readouterr().err
    assert reason in told
    assert "hint: " in told
    assert told.count("\n") == 1
    assert (tmp_path / "old.html").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dead.pickle", "folder", "old.html"]


def test_a_trace_without_allocations_is_refused_with_a_hint(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("# nothing\ns 1\n")
    assert main(["report", "empty.txt"]) == 2
    told = capsys.readouterr().err
    assert "has no allocations" in told
    assert "hint: " in told
    assert [path.name for path in tmp_path.iterdir()] == ["empty.txt"]


def test_a_full_disk_leaves_no_partial_file(snapshot):
    # A limit on the size of files is the disk that is full; Python ignores its signal, so writing fails.
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); from memlake.cli import main; "
        f"sys.exit(main(['report', {str(snapshot)!r}]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=snapshot.parent, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"memlake: error: cannot write 'report.html': {os.strerror(errno.EFBIG)}; hint: ")
    assert "Traceback" not in ran.stderr
    assert [path.name for path in snapshot.parent.iterdir()] == [snapshot.name]


def test_a_folder_that_takes_no_files_is_one_sentence(snapshot, tmp_path, capsys):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    # root may write everywhere but into the kernel's own folders.
    folder = Path("/proc") if os.geteuid() == 0 else closed
    assert main(["report", str(snapshot), "-o", str(folder / "report.html")]) == 2
    told = capsys.readouterr().err
    assert "cannot write" in told
    assert "; hint: choose a folder that you may write to" in told
    assert list(closed.iterdir()) == []
