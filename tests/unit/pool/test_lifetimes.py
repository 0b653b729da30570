"""What keeps a pool's memory: the `Pool` object and open buffers, and nothing else."""

from __future__ import annotations

import gc
import threading

import pytest

import memlake
from memlake.errors import ClosedError, InvalidFree

MIB = 2**20


def close(buffer, stream):
    buffer.close()


def close_on_its_stream(buffer, stream):
    buffer.close(stream=stream)


def close_on_another_stream(buffer, stream):
    other = buffer.device.create_stream()
    other.wait(stream)
    buffer.close(stream=other)


def end_a_block(buffer, stream):
    with buffer:
        pass


@pytest.mark.parametrize("way", [close, close_on_its_stream, close_on_another_stream, end_a_block])
@pytest.mark.parametrize("policy", ["lake", "caching", "expandable", "stitch", "driver"])
def test_a_closed_buffer_does_not_keep_the_memory_of_its_pool(gpu, policy, way):
    stream = gpu.create_stream()
    pool = memlake.Pool(gpu, policy)
    buffer = pool.allocate("40MiB", stream=stream)
    way(buffer, stream)
    stream.sync()
    assert gpu.free_memory < gpu.total_memory
    del pool
    gc.collect()
    assert gpu.free_memory == gpu.total_memory
    assert not buffer.is_open
    assert buffer.device == gpu
    assert repr(buffer) == "Buffer(40 MiB, closed)"


def test_the_last_buffer_that_is_closed_ends_a_dropped_pool(gpu):
    pool = memlake.Pool(gpu)
    first, second = pool.allocate("20MiB"), pool.allocate("20MiB")
    del pool
    gc.collect()
    first.close()
    assert gpu.free_memory < gpu.total_memory
    second.close()
    assert gpu.free_memory == gpu.total_memory


def test_a_closed_buffer_that_is_pinned_keeps_the_memory(gpu):
    pool = memlake.Pool(gpu)
    buffer = pool.allocate("20MiB")
    buffer.pin()
    buffer.close()
    del pool
    gc.collect()
    assert gpu.free_memory < gpu.total_memory
    buffer.unpin()
    assert gpu.free_memory == gpu.total_memory
    with pytest.raises(InvalidFree, match="not pinned"):
        buffer.unpin()


def test_a_closed_buffer_whose_pool_is_gone_says_that_it_is_closed(gpu):
    buffer = memlake.Pool(gpu).allocate("20MiB")
    buffer.close()
    gc.collect()
    for use in (
        lambda: buffer.ptr,
        lambda: buffer.pieces,
        lambda: buffer.stream,
        lambda: buffer.generation,
        lambda: buffer.fill(1),
        lambda: buffer.record_stream(gpu.create_stream()),
        lambda: buffer.__dlpack__(max_version=(1, 0)),
        lambda: buffer.__dlpack_device__(),
        buffer.pin,
        buffer.export,
    ):
        with pytest.raises(ClosedError):
            use()
    for again in (buffer.close, lambda: buffer.close(stream=gpu.create_stream())):
        with pytest.raises(InvalidFree, match="closed"):
            again()


def test_threads_may_use_a_buffer_that_another_one_closes(gpu):
    def ask(buffer, begin):
        begin.wait()
        try:
            while True:
                assert buffer.pieces[0].nbytes == MIB
                buffer.pin()
                buffer.unpin()
        except ClosedError:
            pass

    for _ in range(200):
        buffer = memlake.Pool(gpu).allocate(MIB)  # the buffer is all that keeps the pool
        begin = threading.Barrier(3)
        askers = [threading.Thread(target=ask, args=(buffer, begin)) for _ in range(2)]
        for thread in askers:
            thread.start()
        begin.wait()
        buffer.close()
        for thread in askers:
            thread.join()
        assert not buffer.is_pinned
        assert gpu.free_memory == gpu.total_memory
