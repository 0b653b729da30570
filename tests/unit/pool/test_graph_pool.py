"""Graph pools: the memory of captured graphs, which stays where it is until the last graph gives it up."""

import asyncio
import gc
import threading
from contextlib import suppress

import numpy as np
import pytest

import memlake
from helpers.capture import GLOBAL, INTACT, Graph, begin_capture, end_capture
from memlake import ClosedError, ConfigError, InvalidFree, OutOfMemory

MIB = 2**20


def bytes_of(buffer, stream):
    """The bytes of a buffer on the device, after all work of the stream."""
    stream.sync()
    return np.array(buffer.numpy())


def all_that_there_is(pool, stream):
    """Buffers of 3 MiB until there is no memory for another one."""
    buffers = []
    with suppress(OutOfMemory):
        while True:
            buffers.append(pool.allocate("3MiB", stream=stream))
    return buffers


def test_a_graph_uses_its_memory_at_every_launch_while_others_need_all_they_can_get(gpu, pool):
    stream, other = gpu.create_stream(), gpu.create_stream()
    source = pool.allocate("1MiB", stream=stream)
    source.fill(7, stream=stream)
    memory = pool.graph_pool()
    with memory, Graph(stream) as graph:
        scratch = pool.allocate("8MiB", stream=stream)
        place = scratch.ptr
        scratch.fill(1, stream=stream)
        scratch.close()  # the graph writes there at every launch
        result = pool.allocate("1MiB", stream=stream)
        result.copy_from(source, stream=stream)
    held = memory.held
    assert (memory.use_count, memory.live) == (1, MIB)
    assert held >= 9 * MIB
    for round in range(20):
        mine = all_that_there_is(pool, other)
        for buffer in mine:
            assert not (place < buffer.ptr + buffer.nbytes and buffer.ptr < place + 8 * MIB)
            buffer.fill(round, stream=other)
        graph.launch()
        stream.sync()
        for buffer in mine:
            assert (bytes_of(buffer, other) == round).all()
            buffer.close()
        assert (bytes_of(result, stream) == 7).all()
        result.fill(0, stream=stream)
        pool.trim()
        assert memory.held == held
        pool.check()
    graph.destroy()
    result.close()
    source.close()
    memory.close()
    assert pool.stats().graph_held == 0
    with pool.allocate("50MiB", stream=other):
        pass


def test_memory_freed_in_a_capture_serves_later_requests_of_the_same_capture(gpu, pool):
    stream = gpu.create_stream()
    with pool.graph_pool() as memory:
        begin_capture(stream)
        first = pool.allocate("6MiB", stream=stream)
        place = first.ptr
        first.close()
        second = pool.allocate("6MiB", stream=stream)
        assert second.ptr == place
        assert end_capture(stream) == INTACT
    second.close()
    assert pool.allocate("6MiB", stream=stream).ptr != place  # behind the block it is nobody else's
    # A further graph shares the memory.
    with memory:
        begin_capture(stream)
        third = pool.allocate("6MiB", stream=stream)
        assert third.ptr == place
        assert end_capture(stream) == INTACT
    assert memory.use_count == 2
    memory.release()
    assert memory.use_count == 1
    third.close()
    pool.trim()
    assert memory.held >= 6 * MIB
    memory.release()
    assert (memory.use_count, memory.held) == (0, 0)
    with pytest.raises(InvalidFree, match="no graph uses"):
        memory.release()
    memory.close()


def test_a_capturing_stream_needs_a_graph_pool(gpu, pool):
    stream = gpu.create_stream()
    begin_capture(stream)
    for size in (100, 0):
        with pytest.raises(ConfigError, match=r"capturing a graph.*with pool\.graph_pool\(\)"):
            pool.allocate(size, stream=stream)
    with pool.graph_pool() as memory:
        pool.allocate(100, stream=stream).close()
    with pytest.raises(ConfigError, match="capturing a graph"):
        pool.allocate(100, stream=stream)
    assert end_capture(stream) == INTACT
    memory.close()


def test_a_graph_pool_of_a_stream_takes_requests_of_that_stream_from_any_thread(gpu, pool):
    stream, other = gpu.create_stream(), gpu.create_stream()
    with pool.graph_pool(stream=stream) as memory:
        outside = pool.allocate("1MiB", stream=other)
        assert memory.live == 0
        buffers = []
        thread = threading.Thread(target=lambda: buffers.append(pool.allocate("1MiB", stream=stream.handle)))
        thread.start()
        thread.join()
        assert memory.live == MIB
    ids = {block.graph_pool for segment in pool.snapshot().segments for block in segment.blocks if block.requested}
    assert ids == {None, memory.id}
    assert {segment["segment_pool_id"] for segment in pool.snapshot().to_torch()["segments"]} >= {memory.id}
    buffers.pop().close()
    outside.close()
    memory.close()


def test_a_graph_pool_of_a_thread_takes_no_requests_of_other_threads(gpu, pool):
    stream = gpu.create_stream()
    with pool.graph_pool() as memory, pool.allocate("1MiB"):
        thread = threading.Thread(target=lambda: pool.allocate("2MiB", stream=stream).close())
        thread.start()
        thread.join()
        assert (memory.live, memory.live_peak) == (MIB, MIB)
    memory.close()


def test_a_block_that_fails_leaves_nothing_behind(gpu, pool):
    stream = gpu.create_stream()
    before = pool.stats().held
    memory = pool.graph_pool()
    buffers = []

    def capture(*sizes):
        with memory, Graph(stream):
            for size in sizes:
                buffers.append(pool.allocate(size, stream=stream))

    with pytest.raises(OutOfMemory):
        capture("20MiB", "60MiB")
    buffers.pop().close()
    stream.sync()
    pool.trim()
    assert (memory.use_count, memory.held, pool.stats().held) == (0, 0, before)
    pool.check()
    # It can be used again.
    with memory, Graph(stream) as graph:
        buffer = pool.allocate("20MiB", stream=stream)
        buffer.fill(3, stream=stream)
    graph.launch()
    assert (bytes_of(buffer, stream) == 3).all()
    graph.destroy()
    buffer.close()
    memory.close()


@pytest.mark.needs("virtual_memory")
def test_the_limit_bounds_graph_pools_and_the_rest_together(gpu):
    pool = memlake.Pool(gpu, limit="40MiB")
    with pool.graph_pool() as memory:
        graph_buffer = pool.allocate("19MiB")
        with pytest.raises(OutOfMemory):
            pool.allocate("30MiB")
    assert pool.stats().held <= 40 * MIB
    with pytest.raises(OutOfMemory, match="graph pools keep 1 MiB") as caught:
        pool.allocate("30MiB")
    assert caught.value.details.kept_for_graphs == MIB
    stats = pool.stats()
    assert stats.graph_held == memory.held
    assert stats.largest_contiguous == 0
    assert stats.graph_live == memory.live == 19 * MIB
    graph_buffer.close()
    assert (pool.stats().graph_live, pool.stats().graph_live_peak) == (0, 19 * MIB)
    memory.close()
    pool.allocate("30MiB").close()
    assert pool.stats().graph_held == 0
    assert pool.stats().graph_held_peak >= 19 * MIB
    pool.check()


def test_a_buffer_that_outlives_its_graph_pool_stays_valid(gpu, pool):
    stream = gpu.create_stream()
    with pool.graph_pool() as memory:
        buffer = pool.allocate("5MiB", stream=stream)
        pool.allocate("30MiB", stream=stream).close()
    memory.close()
    buffer.fill(9, stream=stream)
    assert (bytes_of(buffer, stream) == 9).all()
    pool.check()
    buffer.close()
    stream.sync()
    pool.trim()
    assert pool.stats().graph_held == 0


def test_graph_pools_are_closed_once_and_after_their_block(gpu, pool):
    memory = pool.graph_pool()
    with memory:
        for end in (memory.close, memory.release):
            with pytest.raises(InvalidFree, match="after the block"):
                end()
        with pytest.raises(InvalidFree, match="graph pool"):
            pool.close()
    memory.close()
    with pytest.raises(InvalidFree, match="closed before"):
        memory.close()
    with pytest.raises(ClosedError), memory:
        pass
    assert "GraphPool" in repr(memory)
    unreleased = pool.graph_pool()
    with unreleased:
        pool.allocate(100).close()
    held = unreleased.held
    del unreleased
    gc.collect()
    assert pool.stats().graph_held == held  # its graph may still be launched
    pool.close()
    assert "GraphPool" in repr(memory)


def test_memory_of_a_graph_pool_is_not_shared_and_lies_on_devices(gpu):
    pool = memlake.Pool(gpu, handle_type="posix_fd")
    with pool.graph_pool() as memory:
        with pytest.raises(ConfigError, match="graph pool"):
            pool.allocate(100, shareable=True)
        with pool.allocate(100) as buffer:
            assert not buffer.is_shareable
    memory.close()
    on_host = memlake.Pool(gpu, location="host")
    with pytest.raises(ConfigError, match="on the host"), on_host.graph_pool():
        pass


def test_a_graph_pool_lies_on_the_device_of_the_stream(gpus):
    one, two = gpus
    pool = memlake.Pool([one, two])
    stream = two.create_stream()
    with pool.graph_pool() as memory, Graph(stream) as graph:
        buffer = pool.allocate("5MiB", stream=stream)
        buffer.fill(4, stream=stream)
    assert [piece.device for piece in buffer.pieces] == [two]
    graph.launch()
    assert (bytes_of(buffer, stream) == 4).all()
    pool.check()
    graph.destroy()
    buffer.close()
    memory.close()


def test_a_capture_in_global_mode_survives_what_other_threads_do_with_the_pool(gpu, pool):
    stream = gpu.create_stream()
    ended = [gpu.create_stream() for _ in range(3)]
    for old in ended:
        with pool.allocate("1MiB", stream=old) as buffer:
            buffer.fill(1, stream=old)
    errors = []

    def work():
        try:
            for old in ended:
                old.close()
            new = gpu.create_stream()
            with pool.allocate("2MiB", stream=new) as buffer:
                buffer.record_stream(stream)
            with pytest.raises(OutOfMemory):
                pool.allocate("500MiB", stream=new)
            pool.trim()
            pool.stats()
            pool.check()
            with memlake.Pool(gpu, pool.policy) as another:
                another.allocate("1MiB", stream=new).close()
        except BaseException as error:
            errors.append(error)

    with pool.graph_pool() as memory, Graph(stream, GLOBAL) as graph:
        buffer = pool.allocate("4MiB", stream=stream)
        buffer.fill(5, stream=stream)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert errors == []
    graph.launch()
    assert (bytes_of(buffer, stream) == 5).all()
    graph.destroy()
    buffer.close()
    memory.close()


def test_threads_capture_into_graph_pools_of_their_own(gpu, pool):
    errors = []

    def work(value):
        try:
            stream = gpu.create_stream()
            for _ in range(10):
                with pool.graph_pool() as memory, Graph(stream) as graph:
                    pool.allocate("1MiB", stream=stream).close()
                    buffer = pool.allocate("1MiB", stream=stream)
                    buffer.fill(value, stream=stream)
                graph.launch()
                assert (bytes_of(buffer, stream) == value).all()
                graph.destroy()
                buffer.close()
                memory.close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(value,)) for value in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert pool.stats().graph_held == 0


@pytest.mark.parametrize("policy", ["lake", "caching", "expandable"])
def test_a_recording_with_graph_pools_is_replayed_with_the_same_held_memory(gpu, policy, tmp_path):
    pool = memlake.Pool(gpu, policy)
    with pool.record(tmp_path / "graphs.npz"):
        memory = pool.graph_pool()
        with memory:
            kept = pool.allocate("6MiB")
            pool.allocate("9MiB").close()
        with pool.allocate("9MiB"):  # does not fit into the graph pool's free memory
            peak = pool.stats().held
        kept.close()
        pool.trim()
        in_between = pool.stats().held
        memory.close()
        pool.trim()
        end = pool.stats().held
    trace = memlake.Trace.load(tmp_path / "graphs.npz")
    assert set(trace.context.labels["pool_id"].texts) == {"", str(memory.id)}
    result = memlake.replay(trace, policy=policy, capacity="64MiB", timeline=len(trace))
    assert result.peak_held == pool.stats().held_peak == peak
    assert result.timeline.held.tolist()[-1] == end
    assert in_between in result.timeline.held.tolist()
    # Without the labels all requests share memory.
    plain = memlake.replay(trace.without_context(), policy=policy, capacity="64MiB")
    assert plain.peak_held < result.peak_held


@pytest.mark.parametrize("fails", [False, True])
def test_an_asynchronous_block_ends_for_the_thread_that_entered_it(pool, fails):
    memory = pool.graph_pool()

    async def capture():
        async with memory:
            pool.allocate("2MiB").close()
            if fails:
                raise RuntimeError

    with suppress(RuntimeError):
        asyncio.run(capture())
    assert memory.use_count == (0 if fails else 1)
    with pool.allocate("2MiB"):
        assert memory.live == 0
    memory.close()
    pool.close()


def test_a_block_that_another_thread_ends_is_over(pool):
    memory = pool.graph_pool()
    memory.__enter__()
    thread = threading.Thread(target=memory.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    with pool.allocate("2MiB"):
        assert memory.live == 0
    with pytest.raises(InvalidFree, match="no with block"):
        memory.__exit__(None, None, None)
    memory.close()
    pool.close()
