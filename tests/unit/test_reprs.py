"""`repr` and `str` never raise: debuggers and tracebacks call them in every state of an object."""

import os
from contextlib import suppress

import pytest

import memlake
from memlake import emulator, vmm
from memlake.errors import MemlakeError
from memlake.trace import Op

POLICIES = ("lake", "caching", "expandable", "stitch", "direct", "driver")


@pytest.fixture
def everything(memlake_emulator, tmp_path):
    """One object of every kind, all open."""
    gpus = a, b = memlake_emulator.emulate(devices=2, memory="256MiB")
    stream = a.create_stream()
    chunk = vmm.create(a, "2MiB")
    reservation = vmm.reserve(a, "8MiB")
    mapping = reservation.map(chunk, access=gpus)
    segment = vmm.Segment.create(b, "8MiB", access=gpus)
    stitched = vmm.stitch(vmm.Segment.create(a, "4MiB").chunks)
    pools = [memlake.Pool(a, policy) for policy in POLICIES] + [memlake.Pool([a, b])]
    buffers = [pool.allocate("2MiB", stream=stream) for pool in pools]
    shared = pools[0].allocate("2MiB", shareable=True)
    share = shared.export()
    snapshot = pools[-1].snapshot()
    recording = pools[0].record(tmp_path / "trace.npz")
    objects = [*gpus, stream, stream.record(), memlake.Stream.from_handle(stream.handle, device=a), a.default_stream]
    objects += [chunk, reservation, mapping, segment, stitched, segment.chunks, *pools, *buffers, shared, share]
    objects += [share.open(), recording, pools[0].peer_accessible_by, gpus, a.features]
    objects += [snapshot, *snapshot.segments, pools[0].stats(), emulator.ledger(), memlake.driver.counting(a)]
    yield objects
    with suppress(MemlakeError):
        recording.stop()


def failures(objects):
    failed = []
    for one in objects:
        for show in (repr, str):
            try:
                assert show(one)
            except BaseException as error:
                failed.append((type(one).__name__, show.__name__, repr(error)))
    return failed


def test_of_open_objects(everything):
    assert failures(everything) == []


def test_of_closed_objects(everything):
    for one in reversed(everything):
        with suppress(MemlakeError, AttributeError):
            one.close()
    assert failures(everything) == []


def test_of_objects_whose_stream_and_device_are_closed(everything):
    a, b, stream = everything[:3]
    for one in (stream, a, b):
        one.close()
        assert failures(everything) == []


def test_of_objects_in_a_forked_child(everything):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, repr(failures(everything)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        assert answer.read() == "[]"
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("kind", [memlake.Pool, memlake.Trace])
def test_of_an_object_whose_constructor_failed(kind):
    assert repr(kind.__new__(kind)).endswith(("(not made)", "(not made)>"))


def test_of_a_trace():
    assert repr(memlake.Trace([Op.ALLOCATE], [0], [1], [0])).startswith("<memlake.Trace: 1 row")
