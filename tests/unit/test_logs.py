"""memlake logs under its own names, and is silent unless a program asks for it."""

import logging

import pytest

import memlake
from helpers.processes import run_python
from memlake import OutOfMemory


def test_a_refusal_and_the_life_of_a_pool_are_logged(gpu, caplog):
    caplog.set_level(logging.DEBUG, logger="memlake")
    with memlake.Pool(gpu) as pool:
        with pytest.raises(OutOfMemory) as refusal:
            pool.allocate("65MiB")
        pool.trim()
    assert {record.name for record in caplog.records} == {"memlake.pool"}
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in said] == ["DEBUG", "INFO", "DEBUG", "DEBUG"]
    assert said[0][1].endswith("was made")
    assert str(refusal.value) in said[1][1]
    assert "trim released 0 bytes" in said[2][1]
    assert said[3][1].endswith("was closed")


def test_nothing_is_printed_by_default():
    done = run_python("""
        import sys
        import memlake
        sys.unraisablehook = lambda unraisable: None
        (gpu,) = memlake.emulate(memory="64MiB")
        def fail(pool):
            raise ValueError
        pool = memlake.Pool(gpu, on_high=(1, fail))
        pool.allocate("2MiB").close()    # logs an error
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_program_that_wants_the_log_gets_it():
    done = run_python("""
        import logging
        logging.basicConfig(level=logging.DEBUG)
        import memlake
        (gpu,) = memlake.emulate(memory="64MiB")
        memlake.Pool(gpu).close()
    """)
    assert done.returncode == 0
    assert [line.split(":")[:2] for line in done.stderr.splitlines()] == [["DEBUG", "memlake.pool"]] * 2
