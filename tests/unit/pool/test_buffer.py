import copy
import gc
import itertools
import pickle

import numpy as np
import pytest

import memlake
from memlake import ClosedError, ConfigError, InvalidFree
from memlake.device import Piece

MIB = 2**20


def test_a_buffer_is_one_range_of_one_device(pool, gpu):
    buffer = pool.allocate("3MiB")
    assert buffer.nbytes == 3 * MIB
    assert buffer.ptr % 512 == 0
    assert buffer.address == buffer.ptr
    assert buffer.pieces == (Piece(gpu, 0, 3 * MIB),)
    assert buffer.device is gpu
    assert buffer.stream == gpu.default_stream


def test_bytes_are_written_and_read_back(pool):
    first, second = pool.allocate(1000), pool.allocate("5MiB")
    first.copy_from(np.arange(250, dtype=np.int32))
    second.fill(7)
    second.copy_from(first, offset=MIB)
    result = np.empty(250, np.int32)
    second.copy_to(result, offset=MIB)
    assert (result == np.arange(250)).all()
    assert (first.numpy(np.int32) == np.arange(250)).all()
    assert second.numpy()[0] == second.numpy()[-1] == 7


def test_two_live_buffers_never_overlap(pool):
    buffers = [pool.allocate(n) for n in (1, 511, 512, 513, MIB, MIB + 1, 3 * MIB)]
    ranges = sorted((b.ptr, b.ptr + b.nbytes) for b in buffers)
    assert all(left[1] <= right[0] for left, right in itertools.pairwise(ranges))
    for value, buffer in enumerate(buffers):
        buffer.fill(value)
    assert [int(b.numpy()[-1]) for b in buffers] == list(range(len(buffers)))


def test_a_closed_buffer_is_refused_everywhere(pool, gpu):
    buffer = pool.allocate(100)
    buffer.close()
    assert not buffer.is_open
    assert buffer.nbytes == 100
    assert "closed" in repr(buffer)
    with pytest.raises(InvalidFree, match="closed already"):
        buffer.close()
    for use in (
        lambda: buffer.ptr,
        lambda: buffer.pieces,
        lambda: buffer.fill(0),
        lambda: buffer.copy_from(b"abc"),
        lambda: buffer.copy_to(bytearray(3)),
        lambda: buffer.numpy(),
        lambda: buffer.record_stream(gpu.create_stream()),
        lambda: pool.allocate(100).copy_from(buffer),
        lambda: buffer.__enter__(),
    ):
        with pytest.raises(ClosedError):
            use()


def test_a_dropped_buffer_is_freed(pool):
    buffer = pool.allocate("2MiB")
    assert pool.stats().num_live == 1
    del buffer
    assert pool.stats().num_live == 0


def test_a_buffer_in_a_cycle_is_freed_by_the_garbage_collector(pool):
    class Holder:
        pass

    holder = Holder()
    holder.buffer, holder.self = pool.allocate(5), holder
    del holder
    gc.collect()
    assert pool.stats().num_live == 0


def test_a_with_block_frees(pool):
    with pool.allocate(100) as buffer:
        assert pool.stats().num_live == 1
    assert not buffer.is_open
    with pool.allocate(100) as buffer:
        buffer.close()
    assert pool.stats().num_live == 0


def test_a_view_keeps_its_buffer_open(pool, gpu):
    buffer = pool.allocate(4096)
    view = buffer.numpy()[10:20]
    with pytest.raises(BufferError, match="NumPy view"):
        buffer.close()
    with pytest.raises(BufferError):
        buffer.close(stream=gpu.default_stream)
    with pytest.raises(BufferError):
        gpu.close()
    del buffer
    gc.collect()
    assert pool.stats().num_live == 1
    view[:] = 3
    del view
    gc.collect()
    assert pool.stats().num_live == 0


def test_zero_bytes_give_an_empty_buffer(pool):
    before = pool.stats()
    buffer = pool.allocate(0)
    assert (buffer.ptr, buffer.nbytes, buffer.pieces) == (0, 0, ())
    buffer.fill(1)
    buffer.copy_from(b"")
    assert buffer.numpy(np.float32).shape == (0,)
    buffer.close()
    with pytest.raises(InvalidFree):
        buffer.close()
    assert pool.stats() == before


@pytest.mark.parametrize("nbytes", [-1, "-1GiB", 2**63, 2**80, -(2**70), 1.5, "many", None, True, [], "150%"])
def test_absurd_sizes_are_refused(pool, nbytes):
    with pytest.raises(ConfigError):
        pool.allocate(nbytes)
    assert pool.stats().num_allocations == 0


def test_sizes_may_be_anything_that_is_a_size(pool):
    assert pool.allocate("4KiB").nbytes == 4096
    assert pool.allocate(np.int64(77)).nbytes == 77
    assert pool.allocate("25%").nbytes == 16 * MIB


@pytest.mark.parametrize("what", [copy.copy, copy.deepcopy, pickle.dumps])
def test_neither_pools_nor_buffers_can_be_copied(pool, what):
    buffer = pool.allocate(1)
    for thing in (buffer, pool):
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            what(thing)


def test_a_buffer_cannot_be_made_by_hand(pool):
    with pytest.raises(TypeError):
        memlake.Buffer()
    made = memlake.Buffer.__new__(memlake.Buffer)
    with pytest.raises(TypeError, match="was not called"):
        made.close()
    with pytest.raises(TypeError, match="was not called"):
        memlake.Pool.__new__(memlake.Pool).allocate(5)
    with pytest.raises(TypeError):
        memlake.Pool.allocate(5, 5)


def test_repr_is_short_and_true(pool):
    assert repr(pool.allocate("2MiB")).startswith("Buffer(2 MiB at 0x")
    assert pool.policy.name in repr(pool)
