import pytest

import memlake
from memlake import ClosedError, InvalidFree


def test_a_pinned_buffer_keeps_its_memory_behind_close(pool):
    buffer = pool.allocate("2MiB")
    place = buffer.ptr
    buffer.pin()
    buffer.pin()
    assert buffer.is_pinned
    buffer.close()
    assert not buffer.is_open
    assert pool.stats().num_live == 1
    assert pool.allocate("2MiB").ptr != place
    buffer.unpin()
    assert pool.stats().num_live == 1
    buffer.unpin()
    assert pool.stats().num_live == 0
    assert not buffer.is_pinned
    with pytest.raises(InvalidFree, match="not pinned"):
        buffer.unpin()


def test_unpinning_an_open_buffer_leaves_it_open(pool):
    buffer = pool.allocate(100)
    buffer.pin()
    buffer.unpin()
    assert buffer.is_open
    buffer.close()
    assert pool.stats().num_live == 0


def test_a_pinned_buffer_that_is_dropped_is_freed(pool):
    closed, open_ = pool.allocate(100), pool.allocate(100)
    for buffer in (closed, open_):
        buffer.pin()
    closed.close()
    del closed, open_, buffer
    assert pool.stats().num_live == 0


def test_a_closed_buffer_cannot_be_pinned(pool):
    buffer = pool.allocate(100)
    buffer.close()
    with pytest.raises(ClosedError):
        buffer.pin()
    with pytest.raises(ClosedError):
        buffer.generation  # noqa: B018


def test_the_generation_is_that_of_the_memory(gpu):
    for policy in ("lake", "expandable", "caching"):
        with memlake.Pool(gpu, policy) as pool:
            with pool.allocate("4MiB") as buffer:
                place, first = buffer.ptr, buffer.generation
            with pool.allocate("4MiB") as buffer:
                assert (buffer.ptr, buffer.generation) == (place, first)  # the same memory
            pool.trim()
            with pool.allocate("4MiB") as buffer:
                assert buffer.ptr != place or buffer.generation != first


def test_an_empty_buffer_can_be_pinned(pool):
    buffer = pool.allocate(0)
    buffer.pin()
    buffer.close()
    buffer.unpin()
    assert buffer.nbytes == 0
