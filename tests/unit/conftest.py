import sys

import pytest

import memlake
from memlake.policies import known_policies
from memlake.trace import Op, load_example

MIB = 2**20


@pytest.fixture(scope="session")
def moe():
    return load_example("train_moe")


@pytest.fixture(scope="session")
def offload():
    return load_example("train_opt-13b_lora_offload")


@pytest.fixture
def without_workers(monkeypatch):
    """The ranks of a job are analysed in this process, as in a program that embeds Python. Tests of the worker
    processes are in jobs/test_processes.py. The value is the path of Python, with which workers can be had again."""
    python = sys.executable
    monkeypatch.setattr(sys, "executable", "")
    return python


@pytest.fixture(scope="session")
def compared_policies():
    """The names of the policies that comparisons include by default, in the order of tables."""
    return [name for name, options in known_policies().items() if not options().capabilities.approximate]


@pytest.fixture
def scattered():
    """90 MiB in one segment, of which the middle stays in use; then a request for 60 MiB."""
    before = [(Op.ALLOCATE, 0, 90), (Op.FREE, 0, 0), (Op.ALLOCATE, 1, 40), (Op.STEP, 7, 0), (Op.ALLOCATE, 2, 10)]
    return make([*before, (Op.FREE, 1, 0), (Op.ALLOCATE, 3, 60), (Op.ALLOCATE, 4, 1)])


@pytest.fixture(scope="session")
def make_trace():
    return make


def make(rows, **more):
    """A trace of (op, id, MiB[, stream])."""
    return memlake.Trace(
        [row[0] for row in rows],
        [row[1] for row in rows],
        [int(row[2] * MIB) for row in rows],
        [row[3] if len(row) > 3 else 0 for row in rows],
        **more,
    )
