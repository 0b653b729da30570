"""Pools with the policy driver: CUDA's own memory pools, seen through memlake."""

import pytest

import memlake
from memlake import emulator
from memlake.policies import DriverOptions

MIB = 2**20


@pytest.fixture
def pool(gpu):
    with memlake.Pool(gpu, "driver") as pool:
        yield pool


def driver_pool(gpu):
    (entry,) = [entry for entry in gpu.ledger().pools if not entry.is_default]
    return entry


def test_requests_and_frees_go_to_the_driver(gpu, pool):
    stream = gpu.create_stream()
    with pool.allocate("3MiB", stream=stream) as buffer:
        buffer.fill(7, stream=stream)
        assert gpu.ledger().pool_allocations[0].stream == stream.handle
        assert pool.stats().held == driver_pool(gpu).held == 32 * MIB
        assert pool.used_mem_current == driver_pool(gpu).used >= 3 * MIB
        pool.check()
    assert not gpu.ledger().pool_allocations
    assert pool.stats().driver_calls["cuMemFreeAsync"] >= 1
    stream.sync()
    assert pool.trim() == 32 * MIB


def test_a_buffer_closed_on_another_stream_is_freed_in_its_order(gpu, pool):
    one, other = gpu.create_stream(), gpu.create_stream()
    buffer = pool.allocate("2MiB", stream=one)
    address = buffer.ptr
    with emulator.hold(other):
        buffer.close(stream=other)
        assert pool.stats().pending == 0
        assert pool.allocate("2MiB", stream=one).ptr != address
        assert pool.allocate("2MiB", stream=other).ptr == address
    assert driver_pool(gpu).reuses["same_stream"] == 1


def test_max_size_is_the_drivers_and_limit_is_on_what_is_live(gpu):
    with memlake.Pool(gpu, "driver", max_size="64MiB") as pool:
        pool.allocate("64MiB").close()
        with pytest.raises(memlake.OutOfMemory):
            pool.allocate("65MiB")
    with memlake.Pool(gpu, "driver", limit="10MiB") as pool:
        kept = pool.allocate("8MiB")
        with pytest.raises(memlake.OutOfMemory, match="limit"):
            pool.allocate("3MiB")
        pool.limit = "20MiB"
        pool.allocate("3MiB").close()
        kept.close()


def test_the_threshold_and_the_rules_are_the_drivers(gpu):
    options = DriverOptions(reuse_allow_opportunistic=False)
    with memlake.Pool(gpu, options, release_threshold=0) as pool:
        assert not pool.reuse_allow_opportunistic
        assert pool.reuse_follow_event_dependencies
        pool.reuse_follow_event_dependencies = False
        assert not pool.reuse_follow_event_dependencies
        assert driver_pool(gpu).release_threshold == 0
        pool.allocate("1MiB").close()
        assert pool.stats().held == 32 * MIB
        gpu.synchronize()
        assert pool.stats().held == 0
        pool.release_threshold = "max"
        assert driver_pool(gpu).release_threshold == 2**64 - 1
        pool.allocate("1MiB").close()
        gpu.synchronize()
        assert pool.reserved_mem_current == 32 * MIB
        pool.reserved_mem_high = 0
        pool.used_mem_high = 0
        assert pool.used_mem_high == pool.used_mem_current == 0


def test_peers_are_let_in():
    with memlake.emulate(devices=2, memory="256MiB") as (first, second), memlake.Pool(first, "driver") as pool:
        buffer = pool.allocate("1MiB")
        first.synchronize()
        pool.peer_accessible_by = [second]
        stream = second.create_stream()
        emulator.launch(stream, "a kernel of the peer", writes=[(buffer.ptr, 64)])
        stream.sync()
        buffer.close()


def test_several_devices_are_refused():
    with (
        memlake.emulate(devices=2, memory="256MiB") as devices,
        pytest.raises(memlake.ConfigError, match="'driver' knows one device"),
    ):
        memlake.Pool(list(devices), "driver")


def test_a_use_that_does_not_wait_for_the_allocation_is_a_violation(gpu, memlake_emulator):
    one, other = gpu.create_stream(), gpu.create_stream()
    with memlake.Pool(gpu, "driver") as pool:
        with emulator.hold(one):
            buffer = pool.allocate("1MiB", stream=one)
            with pytest.raises(memlake.ContractViolation, match="may not have come to the allocation"):
                buffer.fill(1, stream=other)
        one.sync()
        buffer.fill(1, stream=other)
        other.sync()
        buffer.close()
    assert len(memlake_emulator.take_violations()) == 1


@pytest.mark.parametrize("value", ["yes", 2, None])
def test_a_rule_is_true_or_false(value):
    with pytest.raises(memlake.ConfigError, match="must be True or False"):
        DriverOptions(reuse_allow_opportunistic=value)


def test_options_are_told_when_they_are_not_the_default():
    assert DriverOptions().label == "driver"
    assert DriverOptions(reuse_allow_opportunistic=False).label == "driver (reuse_allow_opportunistic:False)"


def test_its_memory_cannot_be_exported(gpu):
    with pytest.raises(memlake.ConfigError, match="CUDA's own pools"):
        memlake.Pool(gpu, "driver", handle_type="posix_fd")
    with memlake.Pool(gpu, "driver") as pool, pytest.raises(memlake.ConfigError, match="CUDA's own pools"):
        pool.allocate("4MiB", shareable=True)
