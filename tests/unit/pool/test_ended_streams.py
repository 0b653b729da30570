"""Free memory of a stream that was closed under queued work, or that captures a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import memlake
from helpers.capture import begin_capture, end_capture
from helpers.lake_variants import lake_variants
from memlake import emulator

if TYPE_CHECKING:
    from memlake import EmulatedDevice, Pool, Stream
    from memlake.emulator.pytest_plugin import EmulatorFixture


@pytest.fixture
def gpu(memlake_emulator: EmulatorFixture) -> EmulatedDevice:
    return memlake_emulator.emulate(memory="16MiB", streams="manual")[0]


@pytest.fixture(params=lake_variants())
def pool(request: pytest.FixtureRequest, gpu: EmulatedDevice) -> Pool:
    return memlake.Pool(gpu, lake_variants()[request.param], spill="host")


def use_and_free(pool: Pool, gpu: EmulatedDevice, nbytes: str) -> Stream:
    """Frees memory under queued work; returns its stream."""
    stream = gpu.create_stream()
    with pool.allocate(nbytes, stream=stream) as buffer:
        buffer.fill(1, stream=stream)
    assert emulator.pending(stream) > 0
    return stream


def test_scattered_memory_of_an_ended_stream_is_gathered_after_a_wait(pool: Pool, gpu: EmulatedDevice) -> None:
    stream = gpu.create_stream()
    buffers = [pool.allocate("4MiB", stream=stream) for _ in range(4)]
    for buffer in buffers[::2]:
        buffer.fill(1, stream=stream)
        buffer.close()
    stream.close()
    with pool.allocate("8MiB") as gathered:
        assert {piece.device for piece in gathered.pieces} == {gpu}
        assert pool.stats().host_waits == 1
    pool.check()


def test_host_memory_of_an_ended_stream_serves_a_request(pool: Pool, gpu: EmulatedDevice) -> None:
    with pool.allocate("16MiB"):
        use_and_free(pool, gpu, "4MiB").close()
        pool.allocate("4MiB").close()


def test_host_memory_of_an_ended_stream_does_not_keep_the_host_from_giving_more(
    pool: Pool, gpu: EmulatedDevice
) -> None:
    with pool.allocate("16MiB"):
        use_and_free(pool, gpu, "4MiB").close()
        pool.allocate("8MiB").close()


def test_while_a_stream_captures_the_host_gives_other_memory(pool: Pool, gpu: EmulatedDevice) -> None:
    with pool.allocate("16MiB"):
        stream = use_and_free(pool, gpu, "4MiB")
        begin_capture(stream)
        try:
            pool.allocate("4MiB").close()
        finally:
            end_capture(stream)


@pytest.mark.needs("virtual_memory")
def test_a_refusal_says_which_free_memory_a_capturing_stream_keeps(gpu: EmulatedDevice) -> None:
    with memlake.Pool(gpu) as pool:
        stream = gpu.create_stream()
        buffers = [pool.allocate("4MiB", stream=stream) for _ in range(4)]
        for buffer in buffers[::2]:
            buffer.close()
        begin_capture(stream)
        try:
            with pytest.raises(memlake.OutOfMemory, match=r"8 MiB in whole chunks of streams .* capture a graph"):
                pool.allocate("8MiB")
        finally:
            end_capture(stream)
        pool.allocate("8MiB").close()
        for buffer in buffers[1::2]:
            buffer.close()
