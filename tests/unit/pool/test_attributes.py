import re

import pytest

import memlake
from memlake import ConfigError, emulator
from memlake.pool.attributes import NEVER_RELEASE

MIB = 2**20
RULES = ["reuse_follow_event_dependencies", "reuse_allow_opportunistic", "reuse_allow_internal_dependencies"]


def test_the_current_values_are_those_of_the_statistics_and_cannot_be_set(pool):
    buffer = pool.allocate("10MiB")
    stats = pool.stats()
    assert pool.reserved_mem_current == stats.held >= 10 * MIB
    assert pool.used_mem_current == stats.live + stats.pending >= 10 * MIB
    with pytest.raises(ConfigError, match=r"cannot be set.*pool\.reserve\(nbytes\).*max_size"):
        pool.reserved_mem_current = 512 * MIB
    with pytest.raises(ConfigError, match="cannot be set"):
        pool.used_mem_current = 0
    buffer.close()
    assert pool.used_mem_current == 0


def test_the_high_water_marks_can_only_be_reset(pool):
    pool.allocate("20MiB").close()
    small = pool.allocate("10MiB")
    pool.trim()
    assert pool.reserved_mem_high >= 20 * MIB
    assert pool.used_mem_high >= 20 * MIB
    for name in ("reserved_mem_high", "used_mem_high"):
        for value in (5, 2**30, True, None, "1GiB"):
            with pytest.raises(ConfigError, match=f"{name} is the most that was .*only be set to 0"):
                setattr(pool, name, value)
    pool.used_mem_high = 0
    assert pool.used_mem_high == pool.used_mem_current == small.nbytes
    assert pool.reserved_mem_high >= 20 * MIB
    pool.reserved_mem_high = 0
    assert pool.reserved_mem_high == pool.reserved_mem_current


def test_the_threshold_is_a_size_a_share_or_never(gpu):
    assert memlake.Pool(gpu).release_threshold == NEVER_RELEASE
    pool = memlake.Pool(gpu, release_threshold=0)
    assert pool.release_threshold == 0
    pool.release_threshold = "1MiB"
    assert pool.release_threshold == MIB
    pool.release_threshold = "50%"
    assert pool.release_threshold == 32 * MIB
    for never in ("max", 2**64 - 1):
        pool.release_threshold = never
        assert pool.release_threshold == NEVER_RELEASE
    for wrong in (-1, "much", 2**64, None, True):
        with pytest.raises(ConfigError, match="release_threshold"):
            pool.release_threshold = wrong
    assert pool.release_threshold == NEVER_RELEASE


@pytest.mark.needs("virtual_memory")
def test_the_rules_of_reuse_are_switches_of_a_lake(gpu):
    pool = memlake.Pool(gpu)
    for name in RULES:
        assert getattr(pool, name) is True
        setattr(pool, name, False)
        assert [getattr(pool, other) for other in RULES] == [other != name for other in RULES]
        setattr(pool, name, True)
        with pytest.raises(ConfigError, match=f"{name} is a switch"):
            setattr(pool, name, "yes")


@pytest.mark.parametrize("policy", ["caching", "expandable", "stitch", "direct"])
def test_policies_that_keep_memory_for_its_stream_say_so(gpu, policy):
    pool = memlake.Pool(gpu, policy)
    for name in RULES:
        assert getattr(pool, name) is False
        setattr(pool, name, False)
        with pytest.raises(ConfigError, match=re.escape(f"{name} cannot be switched on: the policy {policy!r}")):
            setattr(pool, name, True)


def test_attributes_of_a_closed_pool_are_an_error(gpu):
    pool = memlake.Pool(gpu)
    pool.close()
    for name in (*RULES, "reserved_mem_current", "used_mem_high"):
        with pytest.raises(memlake.ClosedError):
            getattr(pool, name)


@pytest.fixture
def manual(memlake_emulator):
    """A pool whose streams run only when the test says so, and two streams."""
    (gpu,) = memlake_emulator.emulate(memory="128MiB", streams="manual")
    pool = memlake.Pool(gpu)
    yield pool, gpu.create_stream(), gpu.create_stream()
    pool.check()


def freed_on(pool, stream):
    """Where memory lay that a stream freed while its work was still queued."""
    with pool.allocate("30MiB", stream=stream) as buffer:
        buffer.fill(1, stream=stream)
        return buffer.ptr


@pytest.mark.needs("virtual_memory")
def test_memory_follows_an_order_of_streams(manual):
    pool, one, two = manual
    place = freed_on(pool, one)
    assert pool.allocate("30MiB", stream=two).ptr != place
    two.wait(one)
    reused = pool.allocate("30MiB", stream=two)
    assert reused.ptr != place  # the stream has memory of its own by now
    also = pool.allocate("30MiB", stream=two)
    assert also.ptr == place
    assert pool.stats().policy_counters["reused_by_event"] == 1
    emulator.step(one, 10)


@pytest.mark.needs("virtual_memory")
def test_memory_does_not_follow_an_order_that_is_switched_off(manual):
    pool, one, two = manual
    pool.reuse_follow_event_dependencies = False
    place = freed_on(pool, one)
    two.wait(one)
    assert pool.allocate("30MiB", stream=two).ptr != place
    assert pool.stats().policy_counters["reused_by_event"] == 0
    emulator.step(one, 10)


@pytest.mark.needs("virtual_memory")
def test_what_the_program_has_waited_for_is_there_for_every_stream(manual):
    pool, one, two = manual
    for name in RULES:
        setattr(pool, name, False)
    place = freed_on(pool, one)
    emulator.step(one, 10)
    one.sync()
    assert pool.allocate("30MiB", stream=two).ptr == place


@pytest.mark.needs("second_mapping", "shared_bytes")
def test_an_inserted_wait_is_counted_and_can_be_switched_off(manual):
    pool, one, two = manual
    freed_on(pool, one)
    with pool.allocate("110MiB", stream=two):
        assert pool.stats().policy_counters["stream_waits"] > 0
    emulator.step(two, 10)
    emulator.step(one, 10)
    two.sync()
    waits = pool.stats().policy_counters["stream_waits"]
    pool.reuse_allow_internal_dependencies = False
    with pool.allocate("110MiB", stream=one):
        assert pool.stats().policy_counters["stream_waits"] == waits


def test_the_default_stream_of_a_thread_orders_nothing(manual):
    pool, one, two = manual
    place = freed_on(pool, one)
    per_thread = memlake.Stream.from_handle(2, device=pool.device)  # CU_STREAM_PER_THREAD: another one in every thread
    per_thread.wait(one)
    two.wait(per_thread)
    assert pool.allocate("30MiB", stream=two).ptr != place
    emulator.step(one, 10)


@pytest.mark.needs("virtual_memory")  # a rule of lake
def test_memory_of_a_busy_stream_serves_another_behind_a_wait_on_the_device(manual):
    pool, one, two = manual
    pool.limit = "30MiB"
    place = freed_on(pool, one)
    with pool.allocate("30MiB", stream=two) as buffer:
        assert buffer.ptr == place
        assert pool.stats().host_waits == 0
    emulator.step(one, 10)
    emulator.step(two, 10)
