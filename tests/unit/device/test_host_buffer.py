import array

import numpy as np
import pytest

from helpers.processes import assert_ends_well
from memlake import ConfigError, emulator, vmm
from memlake.device.host_buffer import HostBuffer


@pytest.mark.parametrize(
    "source",
    [
        b"12345678",
        bytearray(8),
        memoryview(b"12345678"),
        array.array("d", [1.0]),
        np.zeros(2, ">f4"),
        np.zeros((2, 2), "i2"),
    ],
)
def test_whatever_has_a_buffer_can_be_copied(source):
    buffer = HostBuffer(source)
    assert buffer.nbytes == 8
    assert buffer.address


@pytest.mark.parametrize("source", [b"", np.zeros((0, 3))])
def test_nothing_can_be_copied_too(source):
    assert HostBuffer(source).nbytes == 0


@pytest.mark.parametrize("source", [[1, 2], "text", 5, None, np.zeros((4, 4))[:, ::2], np.zeros((4, 4)).T])
def test_what_is_no_contiguous_buffer_is_refused(source):
    with pytest.raises(ConfigError, match="contiguous host buffer"):
        HostBuffer(source)


def test_what_is_read_only_cannot_be_written():
    with pytest.raises(ConfigError, match="read-only bytes"):
        HostBuffer(b"1234", is_written=True)


def test_a_bytearray_cannot_move_while_it_is_copied():
    source = bytearray(8)
    buffer = HostBuffer(source)
    with pytest.raises(BufferError):
        source.extend(b"more")
    del buffer
    source.extend(b"more")


def test_host_memory_may_go_once_the_copy_is_queued(gpu):
    segment = vmm.Segment.create(gpu, "2MiB")
    stream = gpu.create_stream()
    with emulator.hold(stream):
        source = np.full(segment.nbytes, 9, dtype=np.uint8)
        segment.copy_from(source, stream=stream)
        source[:] = 1
        del source
    stream.sync()
    assert (segment.numpy() == 9).all()


def test_a_process_may_end_while_copies_wait():
    assert_ends_well("""
        import numpy, memlake
        from memlake import emulator, vmm
        (gpu,) = memlake.emulate(memory="256MiB")
        segment = vmm.Segment.create(gpu, "128MiB")
        stream = gpu.create_stream()
        gate = emulator.hold(stream)
        for _ in range(4):
            segment.copy_from(numpy.ones(segment.nbytes, dtype="u1"), stream=stream)
        gate.open()
    """)
