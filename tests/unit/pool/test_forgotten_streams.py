"""Streams that have ended are forgotten, and their memory serves others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import memlake
from helpers.other_library import Context, destroy_stream
from memlake import emulator

if TYPE_CHECKING:
    from memlake import EmulatedDevice, Pool
    from memlake.emulator.pytest_plugin import EmulatorFixture

MIB = 2**20
STREAMS = 5000


@pytest.fixture
def gpu(memlake_emulator: EmulatorFixture) -> EmulatedDevice:
    return memlake_emulator.emulate(memory="8GiB", backing="none")[0]


@pytest.mark.parametrize("policy", ["lake", "expandable", "caching", "stitch", "driver", "direct"])
def test_many_streams_one_after_another_are_like_one(gpu: EmulatedDevice, policy: str) -> None:
    pool = memlake.Pool(gpu, policy)
    held = calls = 0
    for number in range(STREAMS):
        stream = gpu.create_stream()
        with memlake.driver.counting(gpu) as counts:
            pool.allocate(3 * MIB, stream=stream).close()
        stream.close()
        if number == 10:
            held, calls = pool.stats().held, sum(counts.calls.values())
    assert pool._stream_count == 2
    assert pool.stats().held == held
    assert sum(counts.calls.values()) == calls
    pool.check()


@pytest.mark.needs("virtual_memory")
def test_memory_of_a_stream_that_has_ended_serves_others_before_new_memory(gpu: EmulatedDevice) -> None:
    pool = memlake.Pool(gpu)
    stream = gpu.create_stream()
    pool.allocate("100MiB", stream=stream).close()
    held = pool.stats().held
    stream.close()
    pool.allocate("100MiB").close()
    assert pool.stats().held == held
    pool.check()


@pytest.mark.parametrize("policy", ["lake", "expandable", "caching", "stitch"])
def test_memory_under_work_of_a_stream_that_has_ended_serves_no_other(
    memlake_emulator: EmulatorFixture, policy: str
) -> None:
    (gpu,) = memlake_emulator.emulate(memory="1GiB", streams="manual")
    pool = memlake.Pool(gpu, policy)
    stream = gpu.create_stream()
    buffer = pool.allocate("100MiB", stream=stream)
    place = buffer.ptr
    buffer.fill(1, stream=stream)
    buffer.close()
    stream.close()
    new = gpu.create_stream()
    for other in (None, new):
        with pool.allocate("100MiB", stream=other) as another:
            assert not place <= another.ptr < place + 100 * MIB
    gpu.synchronize()
    pool.check()


def test_a_live_buffer_of_a_stream_that_has_ended_can_be_used_and_freed(gpu: EmulatedDevice, pool: Pool) -> None:
    stream = gpu.create_stream()
    buffer = pool.allocate("4MiB", stream=stream)
    stream.close()
    new = gpu.create_stream()
    pool.allocate("4MiB", stream=new).close()
    with pytest.raises(memlake.ClosedError, match="stream of the buffer is closed"):
        _ = buffer.stream
    buffer.fill(1, stream=new)
    buffer.close()
    pool.allocate("4MiB", stream=new).close()
    pool.check()


def test_tables_of_streams_shrink_when_the_pool_is_trimmed(gpu: EmulatedDevice) -> None:
    pool = memlake.Pool(gpu)
    streams = [gpu.create_stream() for _ in range(200)]
    for stream in streams:
        pool.allocate(3 * MIB, stream=stream).close()
    assert pool._stream_count == 201
    for stream in streams:
        stream.close()
    pool.trim()
    assert pool.stats().held == 0
    for _ in range(400):  # each looks at a few numbers
        stream = gpu.create_stream()
        pool.allocate(3 * MIB, stream=stream).close()
        stream.close()
    assert pool._stream_count <= 201
    pool.check()


def test_work_that_is_held_keeps_the_number_of_its_stream(gpu: EmulatedDevice) -> None:
    pool = memlake.Pool(gpu)
    stream = gpu.create_stream()
    gate = emulator.hold(stream)
    with pool.allocate("4MiB", stream=stream) as buffer:
        buffer.fill(1, stream=stream)
    stream.close()
    for _ in range(5):
        new = gpu.create_stream()
        pool.allocate("4MiB", stream=new).close()
        new.close()
    assert pool._stream_count == 3
    gate.open()
    gpu.synchronize()
    pool.check()


def use_streams_of_another_library(pool: Pool, gpu: EmulatedDevice, count: int) -> None:
    """Uses so many streams one after another. Only their library knows that they are gone."""
    context = Context(gpu, is_primary=True)
    for _ in range(count):
        stream = context.create_stream()
        pool.allocate(3 * MIB, stream=stream).close()
        destroy_stream(stream)


@pytest.mark.parametrize("policy", ["lake", "expandable", "caching", "stitch", "driver", "direct"])
def test_many_streams_of_another_library_have_a_bounded_number_of_entries(gpu: EmulatedDevice, policy: str) -> None:
    pool = memlake.Pool(gpu, policy)
    use_streams_of_another_library(pool, gpu, 1500)
    held, waits = pool.stats().held, pool.stats().host_waits
    use_streams_of_another_library(pool, gpu, 1500)
    assert pool._stream_count <= 450
    assert pool.stats().held <= held
    assert pool.stats().host_waits - waits <= 1500 / 256 + 1
    pool.check()


@pytest.mark.needs("virtual_memory")  # without it a stream holds 20 MiB, and all of them more than the device has
def test_streams_of_another_library_that_are_used_in_turn_are_not_forgotten_again_and_again(
    gpu: EmulatedDevice,
) -> None:
    pool = memlake.Pool(gpu)
    context = Context(gpu, is_primary=True)
    streams = [context.create_stream() for _ in range(600)]
    waits = []
    for _ in range(6):
        for stream in streams:
            pool.allocate(3 * MIB, stream=stream).close()
        waits.append(pool.stats().host_waits)
    assert waits[2] == waits[-1] <= 600 / 256
    assert pool._stream_count == len(streams) + 1
    pool.check()


@pytest.mark.parametrize("policy", ["lake", "expandable", "caching", "stitch"])
@pytest.mark.parametrize("is_live", [True, False], ids=["with_a_live_buffer", "forgotten"])
def test_a_stream_of_another_library_that_was_not_named_for_long_keeps_its_order(
    gpu: EmulatedDevice, policy: str, is_live: bool
) -> None:
    pool = memlake.Pool(gpu, policy)
    stream = Context(gpu, is_primary=True).create_stream()
    buffer = pool.allocate("100MiB", stream=stream)
    if not is_live:
        buffer.close()
    use_streams_of_another_library(pool, gpu, 600)
    if not is_live:
        buffer = pool.allocate("100MiB", stream=stream)
    place = buffer.ptr
    gate = emulator.hold(memlake.Stream.from_handle(stream, device=gpu))
    buffer.fill(1, stream=stream)
    buffer.close()
    new = [pool.allocate("100MiB", stream=gpu.create_stream()), pool.allocate("100MiB")]
    assert all(other.ptr + 100 * MIB <= place or place + 100 * MIB <= other.ptr for other in new)
    gate.open()
    gpu.synchronize()
    pool.check()


@pytest.mark.needs("virtual_memory")
def test_idle_streams_that_were_not_named_for_long_leave_their_memory_to_others(gpu: EmulatedDevice) -> None:
    pool = memlake.Pool(gpu)
    streams = []
    for _ in range(1000):
        streams.append(gpu.create_stream())
        pool.allocate(3 * MIB, stream=streams[-1]).close()
    assert pool.stats().held <= 300 * 4 * MIB
    pool.check()
    pool.reuse_allow_opportunistic = False
    held = pool.stats().held
    streams.append(gpu.create_stream())
    pool.allocate(3 * MIB, stream=streams[-1]).close()
    assert pool.stats().held > held


@pytest.mark.needs("virtual_memory")
def test_busy_streams_that_were_not_named_for_long_keep_their_memory(gpu: EmulatedDevice) -> None:
    pool = memlake.Pool(gpu)
    busy = gpu.create_stream()
    gate = emulator.hold(busy)
    with pool.allocate("100MiB", stream=busy) as buffer:
        place = buffer.ptr
        buffer.fill(1, stream=busy)
    streams = [gpu.create_stream() for _ in range(2)]
    for number in range(600):
        pool.allocate(4096, stream=streams[number % 2]).close()
    for stream in streams:
        with pool.allocate("100MiB", stream=stream) as other:
            assert other.ptr + 100 * MIB <= place or place + 100 * MIB <= other.ptr
    gate.open()
    busy.sync()
    with pool.allocate("100MiB", stream=gpu.create_stream()) as other:
        assert other.ptr == place
    pool.check()


@pytest.mark.needs("virtual_memory")
def test_memory_of_an_ended_stream_is_not_near_to_streams_of_another_device(memlake_emulator: EmulatorFixture) -> None:
    gpus = memlake_emulator.emulate(2, memory="128MiB")
    pool = memlake.Pool(gpus, placement="near")
    for number in range(6):
        gpu = gpus[number % 2]
        stream = gpu.create_stream()
        with pool.allocate("4MiB", stream=stream) as buffer:
            assert [piece.device for piece in buffer.pieces] == [gpu]
        stream.close()
    assert pool.stats().held == 8 * MIB
    pool.check()
