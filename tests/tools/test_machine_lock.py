"""Tests with the mark `alone` run one after another, in all processes of the user."""

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.machine_lock import machine_lock

PROGRAM = """
import sys
from helpers.machine_lock import machine_lock
with machine_lock(sys.argv[1]):
    print("has it", flush=True)
    input()
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts processes that take a lock by its name and keep it until they get a line."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ours = {"TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    started = []

    def run(name, **environment):
        command, environment = [sys.executable, "-c", PROGRAM, name], os.environ | ours | environment
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment))
        return started[-1]

    yield run
    for one in started:
        one.kill()
        one.communicate()


def waits(process):
    """Whether a process waits for a lock, as the kernel says. It is asked until the process waits or has the lock."""
    while not select.select([process.stdout], [], [], 0)[0]:
        rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        if any(row[1] == "->" and row[5] == str(process.pid) for row in rows):
            return True
    return False


def test_a_block_with_the_same_name_waits_until_the_other_ends(start):
    with machine_lock("one"):
        assert not waits(start("two"))
        second = start("one")
        assert waits(second)
    assert second.stdout.readline() == "has it\n"


def test_the_end_of_a_process_frees_its_lock(start):
    first = start("one")
    assert not waits(first)
    second = start("one")
    assert waits(second)
    first.kill()
    assert second.stdout.readline() == "has it\n"


@pytest.fixture
def waiting(start):
    """A process that waits for the lock of the test below, before the test and after it."""
    process = start("test-of-the-mark", TMPDIR=os.environ.get("TMPDIR", "/tmp"))
    assert waits(process)
    yield process
    assert waits(process)


@pytest.mark.alone("test-of-the-mark")
def test_a_test_with_the_mark_holds_the_lock_from_its_first_fixture_to_its_last(waiting):
    assert waits(waiting)
