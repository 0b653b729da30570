import socket
from pathlib import Path

import pytest

import memlake


@pytest.fixture
def gpu(memlake_emulator):
    """One device with room for several chunks."""
    return memlake_emulator.emulate(memory="1GiB")[0]


@pytest.fixture
def pool(gpu):
    pool = memlake.Pool(gpu)
    yield pool
    if pool.is_open:
        pool.check()


@pytest.fixture
def ends():
    """The two ends of a connected Unix socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def no_new_descriptors():
    """After the test the process has as many descriptors as before."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert len(list(Path("/proc/self/fd").iterdir())) == before
