"""Streams that memlake did not make: their devices, contexts and ends, and the objects that stand for them."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING

import pytest

import memlake
from helpers.other_library import Context, TheirStream, destroy_stream
from memlake import ClosedError, ConfigError, emulator

if TYPE_CHECKING:
    from memlake import EmulatedDevice, Pool
    from memlake.emulator.pytest_plugin import EmulatorFixture

MIB = 2**20


@pytest.fixture
def pair(memlake_emulator: EmulatorFixture) -> list[EmulatedDevice]:
    return list(memlake_emulator.emulate(2, "64MiB"))


def ordinals(buffer: memlake.Buffer) -> set[int | None]:
    return {None if piece.device is None else piece.device.ordinal for piece in buffer.pieces}


def test_memory_lies_on_the_device_of_the_stream(pair: list[EmulatedDevice]) -> None:
    pool = memlake.Pool(pair, placement="near")
    streams = [device.create_stream() for device in pair]
    for device, stream in zip(pair, streams, strict=True):
        for form in (stream, stream.handle, TheirStream(stream.handle)):
            with pool.allocate("20MiB", stream=form) as buffer:
                assert ordinals(buffer) == {device.ordinal}
        with memlake.Pool(pair, placement="near") as other:
            named = memlake.Stream.from_handle(stream.handle, device=pair[0])  # the driver knows better
            assert ordinals(other.allocate("20MiB", stream=named)) == {device.ordinal}


def test_a_stream_of_any_device_of_the_pool_harms_no_later_request(pair: list[EmulatedDevice]) -> None:
    pool = memlake.Pool(pair)
    one, two = (device.create_stream() for device in pair)
    pool.allocate("100MiB", stream=TheirStream(two.handle)).close()
    pool.allocate("100MiB", stream=one).close()
    pool.allocate("100MiB").close()
    pool.check()


@pytest.mark.parametrize("policy", ["lake", "expandable", "caching", "stitch"])
def test_a_stream_of_another_device_is_refused_and_leaves_nothing_behind(
    pair: list[EmulatedDevice], policy: str
) -> None:
    pool = memlake.Pool(pair[0], policy)
    foreign = pair[1].create_stream()
    with pool.allocate("10MiB") as buffer:
        for form in (foreign, foreign.handle, TheirStream(foreign.handle)):
            with pytest.raises(ConfigError, match="stream of another device"):
                pool.allocate(100, stream=form)
            with pytest.raises(ConfigError, match="stream of another device"):
                buffer.record_stream(form)
            with pytest.raises(ConfigError, match="stream of another device"):
                buffer.close(stream=form)
    pool.allocate("60MiB", stream=pair[0].create_stream()).close()
    assert pool._stream_count == 2
    pool.check()


@pytest.mark.parametrize("policy", ["lake", "expandable", "caching", "stitch", "driver"])
def test_a_stream_of_a_context_that_is_not_primary_is_ordered_like_others(gpu: EmulatedDevice, policy: str) -> None:
    context = Context(gpu)
    stream = context.create_stream()
    pool = memlake.Pool(gpu, policy)
    buffer = pool.allocate("40MiB", stream=stream)
    assert ordinals(buffer) == {gpu.ordinal}
    gate = emulator.hold(memlake.Stream.from_handle(stream, device=gpu))
    buffer.fill(1, stream=stream)
    buffer.close()
    opener = threading.Timer(0.05, gate.open)  # the next request must wait for the stream; either order is correct
    opener.start()
    pool.allocate("40MiB").close()
    opener.join()
    another = pool.allocate("40MiB")
    memlake.Stream.from_handle(stream, device=gpu).wait(gpu.default_stream.record())
    another.close(stream=stream)
    pool.check()
    pool.close()
    destroy_stream(stream)
    context.destroy()


@pytest.mark.parametrize("policy", ["lake", "expandable", "caching", "stitch"])
def test_a_context_that_is_destroyed_with_its_streams_harms_no_later_request(gpu: EmulatedDevice, policy: str) -> None:
    pool = memlake.Pool(gpu, policy)
    for _ in range(3):
        context = Context(gpu)
        stream = context.create_stream()
        pool.allocate("40MiB", stream=stream).close()
        pool.allocate("8MiB").close(stream=stream)
        context.destroy()
        pool.allocate("40MiB").close()
    pool.trim()
    pool.check()


def test_a_stream_object_is_asked_once(gpu: EmulatedDevice) -> None:
    pool = memlake.Pool(gpu)
    stream = gpu.create_stream()
    theirs = TheirStream(stream.handle)
    pool.allocate("2MiB", stream=theirs).close()
    asked = theirs.questions
    for _ in range(10):
        pool.allocate("2MiB", stream=theirs).close(stream=theirs)
    assert theirs.questions == asked


def test_an_object_in_the_place_of_one_that_is_gone_is_not_taken_for_it(gpu: EmulatedDevice) -> None:
    pool = memlake.Pool(gpu)
    streams = [gpu.create_stream() for _ in range(2)]
    for _ in range(100):  # CPython gives the memory of a dropped object to the next one
        for stream in streams:
            theirs = TheirStream(stream.handle)
            with pool.allocate(4096, stream=theirs) as buffer:
                assert buffer.stream == stream
            del theirs
            gc.collect(0)


@pytest.mark.parametrize("is_own", [True, False])
def test_a_stream_object_that_was_closed_is_refused_also_if_it_was_used_before(
    gpu: EmulatedDevice, is_own: bool
) -> None:
    pool = memlake.Pool(gpu)
    owner = gpu.create_stream()
    stream = owner if is_own else memlake.Stream.from_handle(owner.handle, device=gpu)
    pool.allocate(100, stream=stream).close()
    buffer = pool.allocate(100)
    stream.close()
    with pytest.raises(ClosedError):
        pool.allocate(100, stream=stream)
    with pytest.raises(ClosedError):
        buffer.close(stream=stream)
    buffer.close()


def test_the_default_stream_of_a_thread_is_another_one_in_each_thread(gpu: EmulatedDevice, pool: Pool) -> None:
    """CUDA calls it CU_STREAM_PER_THREAD."""
    theirs = TheirStream(2)
    places: list[int] = []

    def use() -> None:
        for stream in (2, theirs):
            with pool.allocate("4MiB", stream=stream) as buffer:
                places.append(buffer.ptr)
                buffer.fill(1, stream=stream)

    use()
    with pool.allocate("4MiB", stream=2) as mine:
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        assert mine.ptr not in places[2:]
    gpu.synchronize()
    pool.check()


def test_driver_calls_of_a_stream_that_comes_again_are_few(gpu: EmulatedDevice) -> None:
    pool = memlake.Pool(gpu)
    one, two = gpu.create_stream(), gpu.create_stream()
    forms = (one, TheirStream(one.handle), memlake.Stream.from_handle(one.handle, device=gpu))
    for form in forms:
        pool.allocate(4096, stream=form).close(stream=two)
        pool.allocate(4096, stream=two).close(stream=form)
        pool.allocate(4096, stream=form).close()
    for form in forms:
        with memlake.driver.counting(gpu) as counts:
            buffer = pool.allocate(4096, stream=form)
        assert counts.calls == {"cuStreamIsCapturing": 1}
        with memlake.driver.counting(gpu) as counts:
            buffer.close()
        assert counts.calls == {}
        with memlake.driver.counting(gpu) as counts:
            pool.allocate(4096, stream=form.handle).close()
        assert counts.calls == {"cuStreamGetId": 1, "cuStreamIsCapturing": 1}
        buffer = pool.allocate(4096, stream=form)
        with memlake.driver.counting(gpu) as counts:
            buffer.close(stream=two)
        made = {call: n for call, n in counts.calls.items() if not call.startswith("cuCtx")}
        assert made == {"cuStreamIsCapturing": 1, "cuEventRecord": 1}
        pool.allocate(4096, stream=one).close()  # sees that the event is complete
