import json
import os
import pickle
import pty
import subprocess
import sys

import pytest

from memlake import Trace
from memlake.cli import main
from memlake.trace import saving

FRAMES = [{"filename": "/home/someone/model.py", "line": 12, "name": "forward"}]


@pytest.fixture
def snapshot(tmp_path):
    event = {"action": "alloc", "addr": 512, "size": 10, "stream": 0, "time_us": 1, "frames": FRAMES}
    path = tmp_path / "snapshot.pickle"
    settings = {"expandable_segments": True}
    path.write_bytes(pickle.dumps({"device_traces": [[event]], "segments": [], "allocator_settings": settings}, 4))
    return path


def test_a_snapshot_becomes_a_small_file_with_everything(snapshot, tmp_path, capsys):
    out = tmp_path / "small.npz"
    assert main(["convert", str(snapshot), str(out)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "1 row, 1 stack." in printed
    trace = Trace.load(out)
    assert trace == Trace.load(snapshot)
    assert trace.stack_of(0)[0].filename == "/home/someone/model.py"
    assert trace.metadata["allocator_settings"] == {"expandable_segments": True}
    assert trace.recorded.addresses.tolist() == [512]


def test_json_says_what_was_written(snapshot, tmp_path, capsys):
    out = tmp_path / "small.npz"
    assert main(["convert", str(snapshot), str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "trace": str(snapshot),
        "out": str(out),
        "bytes": out.stat().st_size,
        "rows": 1,
        "stacks": 1,
        "recorded": True,
        "lost": [],
    }


def test_a_table_has_no_stacks_and_says_so(snapshot, tmp_path, capsys):
    out = tmp_path / "rows.csv"
    assert main(["convert", str(snapshot), str(out)]) == 0
    printed = capsys.readouterr()
    assert " ".join(printed.out.split()).endswith(" B, 1 row.")  # the line may be wrapped after a long path
    assert "rows.csv leaves out stacks, labels and annotations" in printed.err
    assert main(["convert", str(snapshot), str(out), "--json", "--force"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["stacks"], said["recorded"]) == (0, False)


def test_stacks_can_be_left_out(snapshot, tmp_path):
    out = tmp_path / "small.npz"
    assert main(["convert", str(snapshot), str(out), "--without-stacks"]) == 0
    trace = Trace.load(out)
    assert trace.context is None
    assert trace.recorded is not None
    assert b"someone" not in b"".join(part.encode() for part in trace.tags)


def test_an_existing_file_is_replaced_only_by_force(snapshot, tmp_path, capsys):
    out = tmp_path / "small.npz"
    out.write_text("precious")
    assert main(["convert", str(snapshot), str(out)]) == 2
    assert "exists; hint: choose another name, or replace it with --force" in capsys.readouterr().err
    assert out.read_text() == "precious"
    assert main(["convert", str(snapshot), str(out), "--force"]) == 0
    assert len(Trace.load(out)) == 1


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ("small.json", "does not say in which format to save"),
        ("small.json", "end it with .npz, .txt, .txt.gz, .parquet, .pickle, .rmm.csv, .csv, .perfetto.json"),
        ("", "does not say in which format to save"),
        ("missing/small.npz", "there is no directory"),
        ("folder.npz", "is a directory"),
    ],
)
def test_a_bad_name_is_refused_before_the_trace_is_loaded(tmp_path, capsys, monkeypatch, out, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.npz").mkdir()
    assert main(["convert", "no_such_trace", out]) == 2
    assert reason in capsys.readouterr().err


def test_no_partial_file_is_left_if_the_trace_is_bad(tmp_path, capsys):
    (tmp_path / "bad.pickle").write_bytes(b"\x80\x04]")
    assert main(["convert", str(tmp_path / "bad.pickle"), str(tmp_path / "out.npz")]) == 2
    assert "the pickle ends in the middle" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.pickle"]


def test_no_partial_file_is_left_on_a_full_disk(snapshot, tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(saving.FORMATS, ".npz", saving.Format(full))
    assert main(["convert", str(snapshot), str(tmp_path / "out.npz")]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [snapshot.name]


def run_on_terminal(*arguments):
    """Runs memlake with a terminal as stderr; returns stdout, and what the terminal was sent."""
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "memlake", *arguments], stdout=subprocess.PIPE, stderr=theirs, check=False, text=True
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # Linux reports the closed end of a terminal as an error
        pass
    os.close(ours)
    return done.stdout, shown.decode()


def test_a_terminal_shows_progress_and_stdout_has_none(tmp_path, memlake_command):
    path = tmp_path / "large.pickle"
    events = [{"action": "alloc", "addr": 512 * n, "size": 10 + n, "stream": 0} for n in range(200_000)]
    path.write_bytes(pickle.dumps({"device_traces": [events]}, 4))
    printed, shown = run_on_terminal("convert", str(path), str(tmp_path / "out.npz"), "--json")
    assert "reading ..." in shown
    assert "reading [#" in shown
    assert "MiB of " in shown
    assert json.loads(printed)["rows"] == 200_000
    assert memlake_command("convert", str(path), str(tmp_path / "again.npz")).stderr == ""
