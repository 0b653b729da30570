"""Cases 89 to 95: streams and events.

A stream is held with a host function that waits, which works on every driver. While one is held nothing here waits for
the device, and no other host function is queued elsewhere: a real driver may run them all in one thread.
"""

from __future__ import annotations

from ctypes import byref, c_float, c_int, c_void_p
from typing import TYPE_CHECKING

import pytest

from helpers.abi_types import (
    EVENT_DEFAULT,
    EVENT_DISABLE_TIMING,
    EVENT_INTERPROCESS,
    LEGACY_STREAM,
    STREAM_BLOCKING,
    STREAM_NON_BLOCKING,
    Result,
)

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World


def elapsed(world: World, start: int, end: int) -> int:
    """What cuEventElapsedTime answers."""
    return world.driver.cuEventElapsedTime(byref(c_float()), start, end)


def test_case_089_unrecorded_event(world: World, expect: Expectations) -> None:
    """Unrecorded event: query 0, synchronize 0, wait 0; elapsed -> 400."""
    driver, stream = world.driver, world.new_stream()
    event, other = world.new_event(EVENT_DEFAULT), world.new_event(EVENT_DEFAULT)
    expect("query", driver.cuEventQuery(event), Result.SUCCESS, "D")
    expect("synchronize", driver.cuEventSynchronize(event), Result.SUCCESS, "D")
    expect("wait", driver.cuStreamWaitEvent(stream, event, 0), Result.SUCCESS, "D")
    expect("the stream after the wait", world.outcome(driver.cuStreamQuery, stream), Result.SUCCESS, "D")
    expect("elapsed", elapsed(world, event, other), Result.INVALID_HANDLE, "D")


def test_case_090_record(world: World, expect: Expectations) -> None:
    """Record on a blocked stream: query -> 600; after unblocking -> 0; elapsed with DISABLE_TIMING -> 400."""
    driver, stream = world.driver, world.new_stream()
    event, other = world.new_event(EVENT_DISABLE_TIMING), world.new_event(EVENT_DISABLE_TIMING)
    start, end = world.new_event(EVENT_DEFAULT), world.new_event(EVENT_DEFAULT)
    with world.blocked(stream) as gate:
        for recorded in (start, event, other, end):
            expect("record", driver.cuEventRecord(recorded, stream), Result.SUCCESS, "D")
        expect("event query while blocked", driver.cuEventQuery(event), Result.NOT_READY, "D")
        expect("stream query while blocked", driver.cuStreamQuery(stream), Result.NOT_READY, "D")
        expect("elapsed while blocked", elapsed(world, start, end), Result.NOT_READY, "D")
        gate.set()
        expect("synchronize", driver.cuEventSynchronize(end), Result.SUCCESS, "D")
        expect("event query afterwards", driver.cuEventQuery(event), Result.SUCCESS, "D")
        expect("stream query afterwards", world.outcome(driver.cuStreamQuery, stream), Result.SUCCESS, "D")
    expect("elapsed", elapsed(world, start, end), Result.SUCCESS, "D")
    expect("elapsed with DISABLE_TIMING", elapsed(world, event, other), Result.INVALID_HANDLE, "D")


def test_case_091_wait_keeps_its_recording(world: World, expect: Expectations) -> None:
    """Wait-event keeps the old recording after the event is re-recorded."""
    driver = world.driver
    held, waiting, idle = (world.new_stream() for _ in range(3))
    event = world.new_event()
    with world.blocked(held) as gate:
        world.must("cuEventRecord", driver.cuEventRecord(event, held))
        world.must("cuStreamWaitEvent", driver.cuStreamWaitEvent(waiting, event, 0))
        world.must("cuEventRecord", driver.cuEventRecord(event, idle))
        expect("the re-recorded event", world.outcome(driver.cuEventQuery, event), Result.SUCCESS, "D")
        expect("the stream that waits for the old recording", driver.cuStreamQuery(waiting), Result.NOT_READY, "D")
        gate.set()
        expect("the same stream, opened", world.outcome(driver.cuStreamQuery, waiting), Result.SUCCESS, "D")

    world.must("cuEventRecord", driver.cuEventRecord(event, idle))
    world.must("cuStreamWaitEvent", driver.cuStreamWaitEvent(waiting, event, 0))
    with world.blocked(held):
        world.must("cuEventRecord", driver.cuEventRecord(event, held))
        expect("a new recording does not hold an old wait", world.outcome(driver.cuStreamQuery, waiting), 0, "D")
        expect("the new recording is pending", driver.cuEventQuery(event), Result.NOT_READY, "D")


def test_case_092_bad_flags(world: World, expect: Expectations) -> None:
    """INTERPROCESS without DISABLE_TIMING -> 1; stream flags 7 -> 1."""
    event, stream = c_void_p(77), c_void_p(77)
    code = world.driver.cuEventCreate(byref(event), EVENT_INTERPROCESS)
    expect("an event that is INTERPROCESS and timed", code, Result.INVALID_VALUE, "D")
    expect("stream flags 7", world.driver.cuStreamCreate(byref(stream), 7), Result.INVALID_VALUE, "D")
    expect.equal("out-parameters", [event.value, stream.value], [77, 77], "I")


@pytest.mark.world(devices=2)
def test_case_093_across_devices(world: World, expect: Expectations) -> None:
    """Record event of device 0 on stream of device 1 -> 400; wait across devices -> 0."""
    driver, (first, second) = world.driver, world.devices
    event = world.new_event(device=first)
    own, foreign = world.new_stream(device=first), world.new_stream(device=second)
    expect("record on another device's stream", driver.cuEventRecord(event, foreign), Result.INVALID_HANDLE, "D")
    with world.blocked(own) as gate:
        world.must("cuEventRecord", driver.cuEventRecord(event, own))
        expect("wait across devices", driver.cuStreamWaitEvent(foreign, event, 0), Result.SUCCESS, "D")
        expect("the waiting stream", driver.cuStreamQuery(foreign), Result.NOT_READY, "D")
        gate.set()
        expect("the same stream, opened", world.outcome(driver.cuStreamQuery, foreign), Result.SUCCESS, "D")


@pytest.mark.parametrize("legacy", [0, LEGACY_STREAM])
def test_case_094_legacy_stream(legacy: int, world: World, expect: Expectations) -> None:
    """NON_BLOCKING stream not ordered with legacy stream; blocking stream is."""
    driver = world.driver
    blocking, free = world.new_stream(STREAM_BLOCKING), world.new_stream(STREAM_NON_BLOCKING)
    memory = world.new_allocation(3 * 512)
    places = {legacy: memory, blocking: memory + 512, free: memory + 1024}
    events = {stream: world.new_event() for stream in places}

    def work_on(stream: int) -> None:
        world.must("cuMemsetD8Async", driver.cuMemsetD8Async(places[stream], 1, 512, stream))
        world.must("cuEventRecord", driver.cuEventRecord(events[stream], stream))

    def finished(stream: int) -> int:
        return world.outcome(driver.cuEventQuery, events[stream])

    with world.blocked(legacy) as gate:
        work_on(blocking)
        work_on(free)
        expect("NON_BLOCKING beside a held legacy stream", finished(free), Result.SUCCESS, "D")
        expect("blocking behind a held legacy stream", driver.cuEventQuery(events[blocking]), Result.NOT_READY, "D")
        gate.set()
        expect("blocking, opened", finished(blocking), Result.SUCCESS, "D")

    with world.blocked(blocking) as gate:
        work_on(legacy)
        work_on(free)
        expect("NON_BLOCKING beside a held blocking stream", finished(free), Result.SUCCESS, "D")
        expect("legacy behind a held blocking stream", driver.cuEventQuery(events[legacy]), Result.NOT_READY, "D")
        gate.set()
        expect("legacy, opened", finished(legacy), Result.SUCCESS, "D")

    with world.blocked(free) as gate:
        work_on(legacy)
        work_on(blocking)
        expect("legacy beside a held NON_BLOCKING stream", finished(legacy), Result.SUCCESS, "D")
        expect("blocking beside a held NON_BLOCKING stream", finished(blocking), Result.SUCCESS, "D")


def test_case_095_destroy_with_pending_work(world: World, expect: Expectations) -> None:
    """Destroy stream with pending work -> 0 and work finishes; use afterwards -> 400 + CV."""
    driver, stream, event = world.driver, world.new_stream(), world.new_event()
    memory = world.new_allocation(512)
    world.must("cuMemsetD8", driver.cuMemsetD8(memory, 1, 512))
    world.must("cuCtxSynchronize", driver.cuCtxSynchronize())
    with world.blocked(stream) as gate:
        world.must("cuMemsetD8Async", driver.cuMemsetD8Async(memory, 2, 512, stream))
        world.must("cuEventRecord", driver.cuEventRecord(event, stream))
        expect("destroy with pending work", world.destroy_stream(stream), Result.SUCCESS, "D/O")
        expect("the work is still pending", driver.cuEventQuery(event), Result.NOT_READY, "D/O")
        gate.set()
        expect("the work finishes", world.outcome(driver.cuEventQuery, event), Result.SUCCESS, "D/O")
    expect.equal("what it wrote", world.read(memory, 512), (Result.SUCCESS, b"\x02" * 512), "D/O")
    if driver.is_emulated:
        uses = {
            "query": lambda: driver.cuStreamQuery(stream),
            "synchronize": lambda: driver.cuStreamSynchronize(stream),
            "memset": lambda: driver.cuMemsetD8Async(memory, 3, 512, stream),
            "record": lambda: driver.cuEventRecord(event, stream),
            "wait": lambda: driver.cuStreamWaitEvent(stream, event, 0),
            "destroy": lambda: driver.cuStreamDestroy(stream),
        }
        for what, use in uses.items():
            expect.violation(f"{what} after destroy", use(), "D/O", want=Result.INVALID_HANDLE)


@pytest.mark.emulator_only("a real driver has no ledger")
def test_case_095_destroyed_stream_is_gone(world: World, expect: Expectations) -> None:
    """Destroy stream with pending work -> 0 and work finishes; once it has, the ledger knows the stream no more."""
    driver, memory = world.driver, world.new_allocation(512)
    for _ in range(100):  # whatever still runs behind the driver's back has many chances to be seen
        stream = world.new_stream()
        world.must("cuMemsetD8Async", driver.cuMemsetD8Async(memory, 1, 512, stream))
        world.must("cuStreamSynchronize", driver.cuStreamSynchronize(stream))
        expect("destroy", world.destroy_stream(stream), Result.SUCCESS, "D/O")
        listed = [entry["handle"] for entry in driver.ledger()["streams"]]
        expect.that("the destroyed stream is not in the ledger", stream not in listed, "I")


def test_rule_stream_attributes(world: World, expect: Expectations) -> None:
    """Attributes are read, set and copied; the priority is that of the stream; others -> 1."""
    driver, one, other = world.driver, world.new_stream(), world.new_stream()
    priority, policy = 8, 3
    value, answer = (c_int * 16)(-3), (c_int * 16)()
    expect("set the priority", driver.cuStreamSetAttribute(one, priority, value), Result.SUCCESS, "D")
    read = c_int(0)
    expect("cuStreamGetPriority", driver.cuStreamGetPriority(one, byref(read)), Result.SUCCESS, "D")
    expect.equal("the priority", read.value, -3, "I")
    expect("the policy", driver.cuStreamGetAttribute(one, policy, answer), Result.SUCCESS, "D")
    expect.equal("automatic", answer[0], 1, "D")
    value[0] = 2
    expect("set the policy", driver.cuStreamSetAttribute(one, policy, value), Result.SUCCESS, "D")
    expect("copy", driver.cuStreamCopyAttributes(other, one), Result.SUCCESS, "D")
    expect("the copied policy", driver.cuStreamGetAttribute(other, policy, answer), Result.SUCCESS, "D")
    expect.equal("as it was set", answer[0], 2, "D")
    expect("an attribute of launches", driver.cuStreamSetAttribute(one, 2, value), Result.INVALID_VALUE, "D")
    expect("no value", driver.cuStreamGetAttribute(one, policy, None), Result.INVALID_VALUE, "D")
