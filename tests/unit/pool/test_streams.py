import pytest

import memlake
from helpers.capture import INTACT, begin_capture, end_capture
from memlake import ClosedError, ConfigError, emulator

MIB = 2**20


@pytest.fixture(params=["expandable", "caching"])
def manual(request, memlake_emulator):
    """A pool whose streams run only when the test says so, and two streams."""
    (gpu,) = memlake_emulator.emulate(memory="128MiB", streams="manual")
    pool = memlake.Pool(gpu, request.param)
    yield pool, gpu.create_stream(), gpu.create_stream()
    for stream in (gpu.default_stream,):
        emulator.step(stream, 1000)
    pool.check()


def test_memory_freed_on_a_stream_is_reused_there_at_once_and_nowhere_else(manual):
    pool, one, two = manual
    buffer = pool.allocate("30MiB", stream=one)
    place = buffer.ptr
    buffer.fill(1, stream=one)
    buffer.close()
    other = pool.allocate("30MiB", stream=two)
    assert other.ptr != place
    assert pool.allocate("30MiB", stream=one).ptr == place
    emulator.step(one, 10)


def test_a_recorded_stream_is_waited_for(manual):
    pool, one, two = manual
    buffer = pool.allocate("30MiB", stream=one)
    place = buffer.ptr
    buffer.fill(1, stream=two)
    buffer.record_stream(two)
    buffer.close()
    assert pool.stats().pending == 30 * MIB or pool.policy.name == "caching"
    assert pool.stats().num_pending == 1
    assert pool.allocate("30MiB", stream=one).ptr != place
    emulator.step(two, 10)
    assert pool.allocate("30MiB", stream=one).ptr == place
    assert pool.stats().num_pending == 0


def test_a_buffer_may_be_closed_on_another_stream(manual):
    pool, one, two = manual
    buffer = pool.allocate("30MiB", stream=one)
    place = buffer.ptr
    two.wait(one)
    buffer.fill(1, stream=two)
    buffer.close(stream=two)
    assert pool.allocate("30MiB", stream=one).ptr != place
    again = pool.allocate("30MiB", stream=two)
    assert again.ptr == place
    again.close()
    emulator.step(two, 10)
    assert pool.allocate("30MiB", stream=one).ptr == place


def test_pressure_waits_for_streams_and_counts_it(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB")
    pool = memlake.Pool(gpu, "expandable")
    one, two = gpu.create_stream(), gpu.create_stream()
    gate = emulator.hold(two)
    buffer = pool.allocate("40MiB", stream=one)
    buffer.fill(1, stream=two)
    buffer.record_stream(two)
    buffer.close()
    import threading

    opener = threading.Timer(0.05, gate.open)
    opener.start()
    assert pool.allocate("40MiB", stream=one).nbytes == 40 * MIB
    opener.join()
    assert pool.stats().host_waits >= 1
    assert pool.stats().num_alloc_retries == 1


def test_streams_of_other_libraries_are_taken(gpu):
    stream = gpu.create_stream()

    class Theirs:
        def __cuda_stream__(self):
            return (0, stream.handle)

    pool = memlake.Pool(gpu)
    with pool.allocate(100, stream=Theirs()) as buffer:
        place = buffer.ptr
        assert buffer.stream == stream
    assert pool.allocate(100, stream=stream.handle).ptr == place


def test_wrong_streams_are_refused(gpus, pool, gpu):
    closed = gpu.create_stream()
    closed.close()
    with pytest.raises(ClosedError):
        pool.allocate(1, stream=closed)
    with pytest.raises(ConfigError, match="stream of another device"):
        pool.allocate(1, stream=gpus[1].create_stream())
    with pytest.raises(ConfigError, match="stream must be"):
        pool.allocate(1, stream="fast")
    buffer = pool.allocate(1)
    with pytest.raises(ConfigError):
        buffer.record_stream(gpus[1].create_stream())
    with pytest.raises(ConfigError):
        buffer.close(stream=gpus[1].create_stream())
    assert buffer.is_open
    with pytest.raises(ConfigError, match="knows no stream"):
        pool.allocate(1, stream=0xDEAD)
    pool.check()


def test_a_stream_may_end_before_its_buffers(pool, gpu):
    stream = gpu.create_stream()
    explicit, dropped = (pool.allocate("2MiB", stream=stream) for _ in range(2))
    explicit.fill(1, stream=stream)
    stream.close()
    explicit.close()
    del dropped
    pool.trim()
    pool.check()
    assert pool.stats().live == 0


def test_a_capturing_stream_is_refused(gpu, pool):
    stream = gpu.create_stream()
    buffer = pool.allocate(100, stream=stream)
    begin_capture(stream)
    try:
        with pytest.raises(ConfigError, match="capturing a graph"):
            pool.allocate(100, stream=stream)
        buffer.close()
        pool.allocate(100).close(stream=stream)  # becomes free after the capture
        with pytest.raises(ConfigError, match="capturing a graph"):
            pool.allocate(100, stream=stream)
    finally:
        assert end_capture(stream) == INTACT
    pool.allocate(100, stream=stream).close()
    assert pool.stats().pending == 0


def test_what_is_no_stream_is_refused_at_once(pool):
    with pool.allocate(5) as buffer, pytest.raises(memlake.ConfigError, match="knows no stream with the handle 99999"):
        buffer.record_stream(99999)
    with pytest.raises(memlake.ConfigError, match="knows no stream"):
        pool.allocate(5, stream=99999)


def test_a_dropped_buffer_whose_use_cannot_be_recorded_is_freed_later(gpu, pool):
    stream = gpu.create_stream()
    buffer = pool.allocate("2MiB")
    buffer.fill(1, stream=stream)
    buffer.record_stream(stream)
    with memlake.driver.failing(gpu, call="cuEventRecord", code=400):
        del buffer
    assert (pool.stats().live, pool.stats().num_frees) == (0, 1)
    stream.sync()
    pool.trim()
    assert pool.stats().pending == 0
    pool.check()


def test_a_close_on_another_stream_costs_one_record_and_one_query(gpu):
    stream, other = gpu.create_stream(), gpu.create_stream()
    with memlake.Pool(gpu) as pool:

        def work(times):
            for _ in range(times):
                pool.allocate("4MiB", stream=stream).close(stream=other)

        work(3)  # the pool makes its event, and knows both streams from now on
        with memlake.driver.counting(gpu) as counts:
            work(10)
        # A stream is asked whether it captures a graph: once for the request, once for the record.
        assert counts.calls == {
            "cuCtxPushCurrent": 10,
            "cuEventRecord": 10,
            "cuCtxPopCurrent": 10,
            "cuEventQuery": 10,
            "cuStreamIsCapturing": 20,
        }
        pool.check()
