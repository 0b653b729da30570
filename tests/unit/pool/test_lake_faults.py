"""Each driver call of a gathering request fails in turn. The request succeeds in another way or raises; nothing that is
live changes, later requests work, and all memory goes back to the driver."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

import pytest

import memlake
from helpers.driver_memory import nothing_is_left
from helpers.lake_variants import lake_variants
from helpers.scattered import Scattered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlake.emulator.pytest_plugin import EmulatorFixture

MIB = 2**20
BUFFERS = {"small": (700 * 1024, 6, 24 * MIB), "large": (5 * MIB, 1, 48 * MIB)}
"""The size of the buffers, how many neighbours are freed together, and the memory of the devices in sum. Requests of up
to 1 MiB have addresses of their own."""
CODES = {"out of memory": 2, "unknown error": 999}
UNDOING = ("cuMemUnmap", "cuMemRelease", "cuMemAddressFree")
"""Calls that give back what is no longer needed. The pool cannot pass an error of theirs on."""

Scatter = Callable[[], Scattered]


@pytest.fixture(params=[(1, None), (2, "host"), (3, None)], ids=lambda param: f"{param[0]}-{param[1]}")
def places(request: pytest.FixtureRequest) -> tuple[int, str | None]:
    """The number of devices, and where the pool spills."""
    return request.param


@pytest.fixture(params=BUFFERS)
def scatter(
    request: pytest.FixtureRequest, memlake_emulator: EmulatorFixture, variant: str, places: tuple[int, str | None]
) -> Iterator[Scatter]:
    """Makes the situation anew for each fault."""
    (count, spill), (size, together, memory) = places, BUFFERS[request.param]
    devices = memlake_emulator.emulate(count, memory // count, streams="manual")
    with nothing_is_left():
        yield lambda: Scattered(devices, lake_variants()[variant], size, together, spill)


def gathering(scatter: Scatter) -> tuple[int, dict[str, int]]:
    """Returns the size of a request that moves memory, and the driver calls that it makes."""
    for share in (1.2, 0.8, 0.6, 0.4, 0.2):  # 1.2: with host memory, more than is free on the devices
        scattered = scatter()
        size = int(scattered.free * share)
        moved = scattered.moved_chunks
        buffer = None
        with memlake.driver.counting(scattered.pool.device) as counts, suppress(memlake.OutOfMemory):
            buffer = scattered.allocate(size)
        has_moved = scattered.moved_chunks > moved
        if buffer is not None:
            buffer.close()
        scattered.release()
        if buffer is not None and has_moved:
            return size, dict(counts.calls)
    pytest.fail("no request moves memory")


def ask_while_a_call_fails(scattered: Scattered, size: int, call: str, nth: int, code: int) -> None:
    """The request succeeds in another way or raises; then the same request succeeds."""
    with memlake.driver.failing(scattered.pool.device, call=call, nth=nth, code=code):
        try:
            buffer = scattered.allocate(size)
        except memlake.MemlakeError:
            buffer = None
    if buffer is not None:
        scattered.stamp(buffer)
    scattered.check()
    if buffer is not None:
        scattered.close(buffer)
    again = scattered.allocate(size)
    scattered.stamp(again)
    scattered.check()
    scattered.close(again)
    scattered.release()


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
@pytest.mark.parametrize("variant", ["none", "prefix"])  # `whole` makes a subset of the calls of `prefix`
def test_a_fault_in_a_gathering_request_changes_nothing_that_is_live(scatter: Scatter, code: int) -> None:
    size, calls = gathering(scatter)
    faults = [(call, nth) for call in calls for nth in range(1, 1 + calls[call])]
    # A call that makes a context current fails only if the context is lost, and nothing works then.
    faults = [(call, nth) for call, nth in faults if call not in UNDOING and not call.startswith("cuCtx")]
    assert len(faults) > 10
    for call, nth in faults:
        ask_while_a_call_fails(scatter(), size, call, nth, code)


def release_after_a_fault(scattered: Scattered, size: int, call: str, nth: int, *, in_request: bool) -> None:
    """One call that gives something back fails, in a request or in trim(); afterwards everything can be released."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the pool reports what it could not give back
        with memlake.driver.failing(scattered.pool.device, call=call, nth=nth) if in_request else nullcontext():
            scattered.allocate(size).close()
        scattered.check()
        scattered.sync()
        if not in_request:
            with memlake.driver.failing(scattered.pool.device, call=call, nth=nth), suppress(memlake.DriverError):
                scattered.pool.trim()
            scattered.check()
        scattered.release()


@pytest.mark.parametrize("variant", ["none", "prefix"])  # `whole` makes a subset of the calls of `prefix`
@pytest.mark.parametrize(
    ("call", "where"),
    [
        ("cuMemUnmap", "request"),
        ("cuMemUnmap", "trim"),
        ("cuMemRelease", "trim"),
    ],
)
def test_what_could_not_be_given_back_once_is_given_back_later(
    memlake_emulator: EmulatorFixture, variant: str, call: str, where: str
) -> None:
    devices = memlake_emulator.emulate(memory="48MiB", streams="manual")

    def scatter() -> Scattered:
        return Scattered(devices, lake_variants()[variant], 5 * MIB, spill="host")

    size, _ = gathering(scatter)
    with nothing_is_left():
        for nth in (1, 2, 3):
            release_after_a_fault(scatter(), size, call, nth, in_request=where == "request")
