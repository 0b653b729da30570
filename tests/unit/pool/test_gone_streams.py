"""Streams of other libraries that were destroyed after a legal free: no later call may use their handles.

The emulator notes each such call as a violation, and a violation fails the test (`memlake_emulator`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import memlake
from helpers.capture import begin_capture, end_capture
from helpers.other_library import Context, TheirStream, destroy_stream
from memlake import emulator

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlake import EmulatedDevice, Pool
    from memlake.emulator.pytest_plugin import EmulatorFixture

MIB = 2**20
POLICIES = ["lake", "expandable", "caching", "stitch", "direct", "driver"]


@pytest.fixture
def gpu(memlake_emulator: EmulatorFixture) -> EmulatedDevice:
    return memlake_emulator.emulate(memory="120MiB", streams="manual", backing="none")[0]


def create_stream(gpu: EmulatedDevice) -> int:
    return Context(gpu, is_primary=True).create_stream()


def use_and_free(pool: Pool, stream: int | TheirStream, nbytes: int = 60 * MIB) -> None:
    """Frees memory under queued work of the stream."""
    with pool.allocate(nbytes, stream=stream) as buffer:
        buffer.fill(1, stream=stream)


def allocate_elsewhere(pool: Pool, gpu: EmulatedDevice) -> None:
    stream = gpu.create_stream()
    pool.allocate("4MiB", stream=stream).close()
    pool.allocate("1KiB", stream=stream).close()
    pool.allocate("4MiB").close()
    stream.close()


def ask_for_everything(pool: Pool, gpu: EmulatedDevice) -> None:
    pool.allocate("118MiB").close()


def ask_for_a_remainder(pool: Pool, gpu: EmulatedDevice) -> None:
    with pool.allocate("40MiB"):
        pool.allocate("1MiB").close()
        pool.allocate("50MiB", stream=gpu.create_stream()).close()


def ask_for_too_much(pool: Pool, gpu: EmulatedDevice) -> None:
    with pytest.raises(memlake.OutOfMemory):
        pool.allocate("140MiB")


def use_a_graph_pool(pool: Pool, gpu: EmulatedDevice) -> None:
    stream = gpu.create_stream()
    graph_pool = pool.graph_pool()
    with graph_pool:
        begin_capture(stream)
        pool.allocate("2MiB", stream=stream).close()
        assert end_capture(stream) == 0
    graph_pool.close()


def use_its_object_again(pool: Pool, gpu: EmulatedDevice) -> None:
    """Another stream of the same library comes."""
    stream = create_stream(gpu)
    use_and_free(pool, stream, 4 * MIB)
    destroy_stream(stream)


def look(pool: Pool, gpu: EmulatedDevice) -> None:
    pool.stats()
    pool.snapshot()
    pool.check()
    repr(pool)


LATER: dict[str, Callable[[Pool, EmulatedDevice], object]] = {
    "allocate_elsewhere": allocate_elsewhere,
    "ask_for_everything": ask_for_everything,
    "ask_for_a_remainder": ask_for_a_remainder,
    "ask_for_too_much": ask_for_too_much,
    "graph_pool": use_a_graph_pool,
    "look": look,
    "another_stream": use_its_object_again,
    "reserve": lambda pool, gpu: pool.policy.capabilities.preallocation and pool.reserve("100MiB"),
    "trim": lambda pool, gpu: pool.trim(),
    "synchronize_and_trim": lambda pool, gpu: (gpu.synchronize(), pool.trim()),
    "close": lambda pool, gpu: pool.close(),
}


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("form", [int, TheirStream])
@pytest.mark.parametrize("policy", POLICIES)
def test_no_later_call_uses_the_handle(
    gpu: EmulatedDevice, policy: str, form: Callable[[int], int | TheirStream], later: str
) -> None:
    pool = memlake.Pool(gpu, policy)
    handle = create_stream(gpu)
    stream = form(handle)
    use_and_free(pool, stream)
    use_and_free(pool, stream, 1024)
    destroy_stream(handle)
    LATER[later](pool, gpu)
    if pool.is_open:
        pool.trim()


@pytest.mark.parametrize(
    "rule", ["reuse_allow_opportunistic", "reuse_allow_internal_dependencies", "reuse_follow_event_dependencies"]
)
def test_no_rule_of_reuse_needs_the_handle(gpu: EmulatedDevice, rule: str) -> None:
    pool = memlake.Pool(gpu, "lake")
    handle = create_stream(gpu)
    use_and_free(pool, handle)
    destroy_stream(handle)
    setattr(pool, rule, False)
    for later in ("ask_for_everything", "ask_for_a_remainder", "trim"):
        LATER[later](pool, gpu)


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("policy", POLICIES)
def test_no_later_call_uses_the_handle_of_a_recorded_stream(gpu: EmulatedDevice, policy: str, later: str) -> None:
    pool = memlake.Pool(gpu, policy)
    handle = create_stream(gpu)
    with pool.allocate("60MiB") as buffer:
        buffer.fill(1)
        buffer.record_stream(handle)
    with pool.allocate("4MiB") as buffer:
        buffer.record_stream(handle)
        kept = buffer
    del kept, buffer
    destroy_stream(handle)
    LATER[later](pool, gpu)


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_buffer_that_is_dropped_may_outlive_its_streams(gpu: EmulatedDevice, policy: str, later: str) -> None:
    pool = memlake.Pool(gpu, policy)
    handle, recorded = create_stream(gpu), create_stream(gpu)
    buffers = [pool.allocate("30MiB", stream=handle) for _ in range(2)]
    buffers[0].fill(1, stream=handle)
    buffers[1].record_stream(recorded)
    buffers[1].fill(1, stream=recorded)
    destroy_stream(handle)
    destroy_stream(recorded)
    del buffers
    LATER[later](pool, gpu)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_pinned_buffer_that_was_closed_may_outlive_its_stream(gpu: EmulatedDevice, policy: str) -> None:
    pool = memlake.Pool(gpu, policy)
    handle = create_stream(gpu)
    buffer = pool.allocate("60MiB", stream=handle)
    buffer.pin()
    buffer.close()
    destroy_stream(handle)
    buffer.unpin()
    pool.allocate("118MiB").close()
    pool.check()


@pytest.mark.parametrize("policy", POLICIES)
def test_its_memory_serves_others_behind_a_wait(gpu: EmulatedDevice, policy: str) -> None:
    pool = memlake.Pool(gpu, policy)
    handle = create_stream(gpu)
    use_and_free(pool, handle)
    if policy != "direct":  # cuMemFree waits for the device
        assert emulator.pending(memlake.Stream.from_handle(handle, device=gpu)) > 0
    destroy_stream(handle)
    with pool.allocate("118MiB") as buffer:
        buffer.fill(2)
    pool.check()


@pytest.mark.parametrize("policy", POLICIES)
def test_its_memory_is_released_after_a_wait_for_the_device(gpu: EmulatedDevice, policy: str) -> None:
    pool = memlake.Pool(gpu, policy)
    for _ in range(3):
        handle = create_stream(gpu)
        use_and_free(pool, handle, 8 * MIB)
        destroy_stream(handle)
    gpu.synchronize()
    pool.trim()
    assert pool.stats().held == 0


@pytest.mark.parametrize("policy", ["lake", "expandable", "caching", "stitch"])
def test_a_free_after_the_wait_for_the_device_keeps_the_memory(gpu: EmulatedDevice, policy: str) -> None:
    pool = memlake.Pool(gpu, policy)
    handle = create_stream(gpu)
    buffer = pool.allocate("8MiB", stream=handle)
    gpu.synchronize()
    buffer.fill(1, stream=handle)
    buffer.close()
    destroy_stream(handle)
    pool.trim()
    assert pool.stats().held > 0
    gpu.synchronize()
    pool.trim()
    assert pool.stats().held == 0


@pytest.mark.parametrize("policy", ["lake", "expandable", "stitch"])
def test_a_wait_for_the_device_is_no_wait_for_another_context(gpu: EmulatedDevice, policy: str) -> None:
    context = Context(gpu)
    stream = context.create_stream()
    pool = memlake.Pool(gpu, policy)
    use_and_free(pool, stream)
    gpu.synchronize()  # of the primary context
    pool.trim()
    assert pool.stats().held > 0
    pool.allocate("118MiB").close()
    pool.check()
    destroy_stream(stream)
    pool.close()
    context.destroy()


@pytest.mark.parametrize("policy", ["lake", "expandable", "stitch"])  # under caching cuMemFree waits for the device
def test_many_streams_that_are_gone_need_one_wait(gpu: EmulatedDevice, policy: str) -> None:
    pool = memlake.Pool(gpu, policy)
    handles = [create_stream(gpu) for _ in range(20)]
    for handle in handles:
        use_and_free(pool, handle, 5 * MIB)
    for handle in handles:
        destroy_stream(handle)
    with memlake.driver.counting(gpu) as counts:
        pool.allocate("118MiB").close()
    assert counts.calls["cuCtxSynchronize"] == 1
    pool.check()


@pytest.mark.parametrize("policy", ["lake", "expandable", "caching", "stitch"])
def test_a_buffer_that_returns_on_its_own_stream_makes_no_driver_call(gpu: EmulatedDevice, policy: str) -> None:
    pool = memlake.Pool(gpu, policy)
    handle = create_stream(gpu)
    pool.allocate("4MiB", stream=handle).close()
    buffer = pool.allocate("4MiB", stream=handle)
    with memlake.driver.counting(gpu) as counts:
        buffer.close()
    assert counts.calls == {}


def test_streams_that_last_are_asked_at_any_time(gpu: EmulatedDevice) -> None:
    pool = memlake.Pool(gpu, "lake", lasting_streams=True)
    stream = create_stream(gpu)
    use_and_free(pool, stream)
    with pool.allocate("60MiB"), memlake.driver.counting(gpu) as counts:
        pool.allocate("60MiB").close()  # behind a wait on the device
    assert counts.calls["cuStreamWaitEvent"] >= 1
    assert "cuCtxSynchronize" not in counts.calls
    assert pool.stats().host_waits == 0


def test_a_broken_promise_is_a_violation(gpu: EmulatedDevice, memlake_emulator: EmulatorFixture) -> None:
    pool = memlake.Pool(gpu, "lake", lasting_streams=True)
    stream = create_stream(gpu)
    use_and_free(pool, stream)
    destroy_stream(stream)
    pool.allocate("118MiB").close()
    assert memlake_emulator.take_violations()


def test_a_stream_is_not_waited_for_while_a_graph_is_captured(gpu: EmulatedDevice) -> None:
    pool = memlake.Pool(gpu, "lake")
    gone, capturing = create_stream(gpu), gpu.create_stream()
    use_and_free(pool, gone)
    destroy_stream(gone)
    graph_pool = pool.graph_pool(stream=capturing)
    with graph_pool:
        begin_capture(capturing)
        with pytest.raises(memlake.OutOfMemory):
            pool.allocate("118MiB")
        assert end_capture(capturing) == 0  # the capture is whole
    graph_pool.close()
    pool.allocate("118MiB").close()
    pool.check()
