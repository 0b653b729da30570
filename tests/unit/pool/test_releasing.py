import gc
import threading

import pytest

import memlake
from helpers.capture import INTACT, begin_capture, end_capture
from helpers.processes import assert_ends_well, run_python
from memlake import ConfigError, emulator

MIB = 2**20
KEEPING = ["lake", "expandable", "caching", "stitch"]


@pytest.fixture(params=KEEPING)
def strict(request, gpu):
    """A pool that keeps nothing, as CUDA's do."""
    pool = memlake.Pool(gpu, request.param, release_threshold=0)
    yield pool
    pool.check()


@pytest.mark.parametrize("wait", ["stream", "event", "device"])
def test_free_memory_goes_back_when_the_program_waits(strict, gpu, wait):
    stream = gpu.create_stream()
    strict.allocate("20MiB", stream=stream).close()
    event = stream.record()
    assert strict.reserved_mem_current >= 20 * MIB
    while not stream.is_done:  # asking is not waiting
        pass
    assert event.is_done
    assert strict.reserved_mem_current >= 20 * MIB
    {"stream": stream, "event": event, "device": gpu}[wait].sync() if wait != "device" else gpu.synchronize()
    assert strict.reserved_mem_current == 0


def test_what_is_live_or_still_in_use_stays(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="128MiB", streams="manual")
    pool = memlake.Pool(gpu, release_threshold=0)
    slow, other = gpu.create_stream(), gpu.create_stream()
    with pool.allocate("20MiB", stream=slow) as buffer:
        buffer.fill(1, stream=slow)
    live = pool.allocate("20MiB", stream=other)
    other.sync()
    assert pool.reserved_mem_current == 40 * MIB  # the slow stream still writes
    assert pool.trim() == 0
    emulator.step(slow, 10)
    slow.sync()
    assert pool.reserved_mem_current == 20 * MIB
    live.close()


def test_a_threshold_keeps_so_much(gpu):
    pool = memlake.Pool(gpu, "expandable", release_threshold="20MiB")
    pool.allocate("40MiB").close()
    gpu.default_stream.sync()
    assert pool.reserved_mem_current == 20 * MIB
    pool.release_threshold = "max"
    pool.allocate("40MiB").close()
    gpu.synchronize()
    assert pool.reserved_mem_current == 40 * MIB
    assert pool.trim() == 40 * MIB


def test_only_pools_of_the_device_that_was_waited_for_act(gpus):
    one, two = (memlake.Pool(gpu, release_threshold=0) for gpu in gpus)
    for pool in (one, two):
        pool.allocate("20MiB").close()
    gpus[1].synchronize()
    assert one.reserved_mem_current > 0
    assert two.reserved_mem_current == 0


def test_a_pool_over_two_devices_is_told_of_both(gpus):
    pool = memlake.Pool(gpus, release_threshold=0)
    pool.allocate("100MiB").close()
    gpus[1].synchronize()
    gpus[0].synchronize()
    assert pool.reserved_mem_current == 0


def test_a_device_does_not_keep_its_pools(gpu):
    pool = memlake.Pool(gpu, release_threshold=0)
    pool.allocate("20MiB").close()
    del pool
    gc.collect()
    assert gpu.ledger().chunks == ()
    gpu.synchronize()


def test_a_closed_pool_is_not_told(gpu):
    pool = memlake.Pool(gpu, release_threshold=0)
    pool.close()
    gpu.synchronize()


def test_memory_that_was_not_needed_for_a_while_goes_by_itself(gpu):
    pool = memlake.Pool(gpu, "expandable", decay=0.01)
    assert pool.decay == 0.01
    kept = pool.allocate("20MiB")
    pool.allocate("40MiB").close()
    looked = threading.Event()
    while pool.reserved_mem_current > 20 * MIB:
        looked.wait(0.01)
    assert pool.reserved_mem_current == 20 * MIB
    assert pool.used_mem_high >= 60 * MIB  # looking after it does not change what is counted
    kept.close()


def test_what_is_used_in_every_period_stays(gpu):
    pool = memlake.Pool(gpu, "expandable", decay=3600)
    pool.allocate("40MiB").close()
    pool._release_unused()
    assert pool.reserved_mem_current == 40 * MIB  # it was used in the period that is over
    pool.allocate("20MiB").close()
    pool._release_unused()
    assert pool.reserved_mem_current == 20 * MIB
    pool._release_unused()
    assert pool.reserved_mem_current == 0
    pool.release_threshold = "20MiB"
    pool.allocate("40MiB").close()
    pool._release_unused()
    pool._release_unused()
    assert pool.reserved_mem_current == 20 * MIB


@pytest.mark.parametrize("wrong", [0, -1, "soon", float("nan"), float("inf"), True])
def test_a_decay_is_a_time(gpu, wrong):
    with pytest.raises(ConfigError, match="decay is a time in seconds"):
        memlake.Pool(gpu, decay=wrong)


def test_a_program_may_end_while_pools_decay():
    assert_ends_well(
        """
        import memlake
        (gpu,) = memlake.emulate(memory="64MiB")
        pools = [memlake.Pool(gpu, decay=0.0001) for _ in range(3)]
        buffers = [pool.allocate("1MiB") for pool in pools]
        memlake.default_pool(gpu).allocate("1MiB").close()
        """
    )


@pytest.mark.needs("virtual_memory")
def test_a_stream_that_was_closed_does_not_make_trimming_wait_for_others(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="128MiB", streams="manual")
    pool = memlake.Pool(gpu)
    gone, busy = gpu.create_stream(), gpu.create_stream()
    with pool.allocate("30MiB", stream=busy) as buffer:
        buffer.fill(1, stream=busy)
    pool.allocate("20MiB", stream=gone).close()
    gone.close()
    assert pool.trim() == 20 * MIB
    assert pool.stats().host_waits == 0
    emulator.step(busy, 10)
    assert pool.trim() == 30 * MIB
    pool.check()


@pytest.mark.parametrize("size", ["20MiB", "512KiB"])
@pytest.mark.parametrize("policy", ["lake", "expandable", "caching", "stitch", "driver"])
def test_trimming_waits_for_no_stream(memlake_emulator, policy, size):
    (gpu,) = memlake_emulator.emulate(memory="128MiB", streams="manual")
    pool = memlake.Pool(gpu, policy)
    busy, idle = gpu.create_stream(), gpu.create_stream()
    working = pool.allocate(size, stream=busy)
    working.fill(1, stream=busy)  # it runs when the test says so, so a wait for it would last for ever
    pool.allocate(size, stream=idle).close()
    pool.trim()
    assert pool.stats().live > 0
    pool.check()
    emulator.step(busy, 10)
    pool.trim()
    working.close()
    emulator.step(busy, 10)
    pool.trim()
    assert pool.stats().held == 0


def test_memory_of_cu_mem_alloc_stays_while_another_stream_works(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="128MiB", streams="manual")
    pool = memlake.Pool(gpu, "caching")
    busy, idle = gpu.create_stream(), gpu.create_stream()
    with pool.allocate("20MiB", stream=busy) as working:
        working.fill(1, stream=busy)
        pool.allocate("40MiB", stream=idle).close()
        assert pool.trim() == 0
        emulator.step(busy, 10)
        assert pool.trim() == 40 * MIB


@pytest.mark.parametrize("policy", ["lake", "expandable", "caching", "stitch", "driver"])
def test_a_capture_is_left_alone(gpu, policy):
    pool = memlake.Pool(gpu, policy, release_threshold=0)
    captured, other = gpu.create_stream(), gpu.create_stream()
    pool.allocate("20MiB", stream=captured).close()
    begin_capture(captured)
    pool.trim()
    other.sync()
    assert end_capture(captured) == INTACT  # 901 if somebody had touched the stream meanwhile


@pytest.mark.needs("virtual_memory")
def test_a_forked_child_ends_although_pools_decay():
    done = run_python(
        """
        import os, sys
        import memlake
        (gpu,) = memlake.emulate(memory="64MiB")
        pools = [memlake.Pool(gpu, decay=0.0005) for _ in range(20)]
        for _ in range(30):
            child = os.fork()
            if child == 0:
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
        """
    )
    assert done.returncode == 0
