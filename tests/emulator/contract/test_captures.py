"""Rules of stream capture: what becomes a node, forks and joins, and the errors 900 to 908."""

from __future__ import annotations

import threading
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from typing import TYPE_CHECKING

import pytest

from helpers.abi_graphs import (
    ACTIVE,
    EVENT_RECORD,
    EXTERNAL,
    GLOBAL,
    HOST,
    INVALIDATED,
    MEM_ALLOC,
    MEM_FREE,
    MEMCPY,
    MEMSET,
    NONE,
    RELAXED,
    GraphSteps,
)
from helpers.abi_types import HostFunction, Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World


@pytest.fixture
def steps(world: World) -> Iterator[GraphSteps]:
    """The steps of graphs in this world."""
    steps = GraphSteps(world)
    yield steps
    steps.close()


def kinds(steps: GraphSteps, graph: int) -> list[int]:
    """The types of a graph's nodes, in the order in which they were made."""
    array, count, kind, found = (c_void_p * 32)(), c_size_t(32), c_int(), []
    steps.world.must("cuGraphGetNodes", steps.driver.cuGraphGetNodes(graph, array, byref(count)))
    for node in array[: count.value]:
        steps.world.must("cuGraphNodeGetType", steps.driver.cuGraphNodeGetType(node, byref(kind)))
        found.append(kind.value)
    return found


def test_rule_capture_records_and_runs_nothing(steps: GraphSteps, expect: Expectations) -> None:
    """Fills, copies, host functions, allocations and frees become nodes in order; they run at the launch."""
    world, driver, stream = steps.world, steps.driver, steps.world.new_stream()
    one, other, pooled, calls = world.new_allocation(512), world.new_allocation(512), c_uint64(), []
    steps.zero(other, 512)
    function = HostFunction(lambda _: calls.append(1))
    world._callbacks.append(function)
    steps.begin(stream)
    expect("fill", driver.cuMemsetD8Async(one, 6, 64, stream), Result.SUCCESS, "D")
    expect("allocation", driver.cuMemAllocAsync(byref(pooled), 1 << 20, stream), Result.SUCCESS, "D")
    expect("copy into it", driver.cuMemcpyDtoDAsync(pooled.value, one, 64, stream), Result.SUCCESS, "D")
    expect("copy from it", driver.cuMemcpyDtoDAsync(other, pooled.value, 64, stream), Result.SUCCESS, "D")
    expect("free", driver.cuMemFreeAsync(pooled, stream), Result.SUCCESS, "D")
    expect("host function", driver.cuLaunchHostFunc(stream, function, None), Result.SUCCESS, "D")
    code, graph = steps.end(stream)
    expect("cuStreamEndCapture", code, Result.SUCCESS, "D")
    expect.equal("kinds", kinds(steps, graph), [MEMSET, MEM_ALLOC, MEMCPY, MEMCPY, MEM_FREE, HOST], "D")
    expect.equal("roots", steps.count("cuGraphGetRootNodes", graph), 1, "D")
    expect.equal("nothing ran", (calls, world.read(other, 4)), ([], (0, bytes(4))), "D")
    world.must("launch", driver.cuGraphLaunch(steps.executable(graph), stream))
    world.must("cuStreamSynchronize", driver.cuStreamSynchronize(stream))
    expect.equal("it ran", (calls, world.read(other, 4)), ([1], (0, bytes([6] * 4))), "D")


def test_rule_capture_status_and_info(steps: GraphSteps, expect: Expectations) -> None:
    """Status, a unique id, the graph and the nodes that the next one depends on."""
    world, driver, stream = steps.world, steps.driver, steps.world.new_stream()
    memory, status, number, graph = world.new_allocation(512), c_int(), c_uint64(), c_void_p()
    nodes, count = c_void_p(), c_size_t(9)
    expect.equal("before", steps.status(stream), NONE, "D")
    steps.begin(stream)
    expect.equal("during", steps.status(stream), ACTIVE, "D")
    world.must("fill", driver.cuMemsetD8Async(memory, 1, 8, stream))
    code = driver.cuStreamGetCaptureInfo(stream, byref(status), byref(number), byref(graph), byref(nodes), byref(count))
    expect("cuStreamGetCaptureInfo", code, Result.SUCCESS, "D")
    expect.equal("status and dependencies", (status.value, count.value), (ACTIVE, 1), "D")
    expect.that("an id, a graph and nodes", bool(number.value and graph.value and nodes.value), "D")
    expect("destroying that graph", driver.cuGraphDestroy(graph), Result.INVALID_VALUE, "I")
    expect.equal("the graph at the end", steps.end(stream), (0, graph.value), "D")
    expect.equal("after", steps.status(stream), NONE, "D")


def test_rule_capture_begins_and_ends_where_it_may(steps: GraphSteps, expect: Expectations) -> None:
    """The legacy stream -> 900; twice -> 401; no capture -> 401; an unknown mode -> 1."""
    driver, stream, graph = steps.driver, steps.world.new_stream(), c_void_p()
    legacy = driver.cuStreamBeginCapture(None, RELAXED)
    expect("the legacy stream", legacy, Result.STREAM_CAPTURE_UNSUPPORTED, "D")
    expect("mode 9", driver.cuStreamBeginCapture(stream, 9), Result.INVALID_VALUE, "D")
    expect("ending none", driver.cuStreamEndCapture(stream, byref(graph)), Result.ILLEGAL_STATE, "O")
    steps.begin(stream)
    expect("beginning twice", driver.cuStreamBeginCapture(stream, RELAXED), Result.ILLEGAL_STATE, "O")
    expect("ending", steps.end(stream)[0], Result.SUCCESS, "D")


def test_rule_capture_fork_and_join(steps: GraphSteps, expect: Expectations) -> None:
    """A stream that waits for a captured event joins the capture; its nodes are ordered by the events."""
    world, driver = steps.world, steps.driver
    first, second, memory = world.new_stream(), world.new_stream(), world.new_allocation(512)
    fork, join = world.new_event(), world.new_event()
    steps.begin(first)
    world.must("fill", driver.cuMemsetD8Async(memory, 1, 8, first))
    expect("record", driver.cuEventRecord(fork, first), Result.SUCCESS, "D")
    expect("wait", driver.cuStreamWaitEvent(second, fork, 0), Result.SUCCESS, "D")
    expect.equal("the second stream", steps.status(second), ACTIVE, "D")
    world.must("fill", driver.cuMemsetD8Async(memory + 8, 1, 8, second))
    world.must("fill", driver.cuMemsetD8Async(memory + 16, 1, 8, first))
    expect("ending it in the second stream", steps.end(second)[0], Result.STREAM_CAPTURE_UNMATCHED, "D")
    world.must("record", driver.cuEventRecord(join, second))
    world.must("wait", driver.cuStreamWaitEvent(first, join, 0))
    world.must("fill", driver.cuMemsetD8Async(memory + 24, 1, 8, first))
    code, graph = steps.end(first)
    expect("the end", code, Result.SUCCESS, "D")
    expect.equal("the second stream is free again", steps.status(second), NONE, "D")
    array, count = (c_void_p * 4)(), c_size_t(4)
    world.must("cuGraphGetNodes", driver.cuGraphGetNodes(graph, array, byref(count)))
    edges = [steps.count("cuGraphNodeGetDependencies", node) for node in array]
    expect.equal("dependencies of the four nodes", edges, [0, 1, 1, 2], "D")


def test_rule_capture_unjoined(steps: GraphSteps, expect: Expectations) -> None:
    """A stream that joined and was not joined back -> 904; the capture ends without a graph."""
    world, driver = steps.world, steps.driver
    first, second, event = world.new_stream(), world.new_stream(), world.new_event()
    memory = world.new_allocation(512)
    steps.begin(first)
    world.must("record", driver.cuEventRecord(event, first))
    world.must("wait", driver.cuStreamWaitEvent(second, event, 0))
    world.must("fill", driver.cuMemsetD8Async(memory, 1, 8, second))
    expect.equal("the end", steps.end(first), (Result.STREAM_CAPTURE_UNJOINED, 0), "D")
    expect.equal("both streams", (steps.status(first), steps.status(second)), (NONE, NONE), "D")
    expect("work", driver.cuMemsetD8Async(memory, 1, 8, second), Result.SUCCESS, "D")
    world.must("cuStreamSynchronize", driver.cuStreamSynchronize(second))


def test_rule_capture_isolation_and_merge(steps: GraphSteps, expect: Expectations) -> None:
    """An event from outside -> 905; an event of another capture -> 902; both spoil the capture."""
    world, driver = steps.world, steps.driver
    first, second, outside = world.new_stream(), world.new_stream(), world.new_stream()
    event = world.new_event()
    world.must("record", driver.cuEventRecord(event, outside))
    steps.begin(first)
    isolated = driver.cuStreamWaitEvent(first, event, 0)
    expect("an event from outside", isolated, Result.STREAM_CAPTURE_ISOLATION, "D")
    expect.equal("the capture", steps.status(first), INVALIDATED, "D")
    expect("work in it", driver.cuMemsetD8Async(0, 0, 1, first), Result.STREAM_CAPTURE_INVALIDATED, "D")
    expect.equal("its end", steps.end(first), (Result.STREAM_CAPTURE_INVALIDATED, 0), "D")
    steps.begin(first)
    steps.begin(second)
    world.must("record", driver.cuEventRecord(event, first))
    expect("another capture", driver.cuStreamWaitEvent(second, event, 0), Result.STREAM_CAPTURE_MERGE, "D")
    expect.equal("the ends", [steps.end(stream)[0] for stream in (first, second)], [901, 901], "D")


def test_rule_capture_external_events(steps: GraphSteps, expect: Expectations) -> None:
    """EXTERNAL makes event nodes in a capture, and -> 1 outside of one."""
    world, driver = steps.world, steps.driver
    stream, event = world.new_stream(), world.new_event()
    expect("outside", driver.cuEventRecordWithFlags(event, stream, EXTERNAL), Result.INVALID_VALUE, "D")
    steps.begin(stream)
    expect("a record node", driver.cuEventRecordWithFlags(event, stream, EXTERNAL), Result.SUCCESS, "D")
    expect("a wait node", driver.cuStreamWaitEvent(stream, event, EXTERNAL), Result.SUCCESS, "D")
    code, graph = steps.end(stream)
    expect.equal("the graph", (code, kinds(steps, graph)[0]), (0, EVENT_RECORD), "D")


def test_rule_capture_refuses_what_cannot_be_captured(steps: GraphSteps, expect: Expectations) -> None:
    """Waiting for or asking a capturing stream -> 900 and spoils the capture; a captured event -> 907."""
    world, driver = steps.world, steps.driver
    stream, event = world.new_stream(), world.new_event()
    for what, call in (("synchronize", driver.cuStreamSynchronize), ("query", driver.cuStreamQuery)):
        steps.begin(stream)
        expect(what, call(stream), Result.STREAM_CAPTURE_UNSUPPORTED, "D")
        expect(f"the end after {what}", steps.end(stream)[0], Result.STREAM_CAPTURE_INVALIDATED, "D")
    for what, call in (("query", driver.cuEventQuery), ("synchronize", driver.cuEventSynchronize)):
        steps.begin(stream)
        world.must("record", driver.cuEventRecord(event, stream))
        expect(f"{what} of a captured event", call(event), Result.CAPTURED_EVENT, "D")
        expect("the end", steps.end(stream)[0], Result.STREAM_CAPTURE_INVALIDATED, "I")
    world.must("record", driver.cuEventRecord(event, stream))
    expect("recorded outside again", driver.cuEventSynchronize(event), Result.SUCCESS, "D")


def test_rule_capture_and_the_legacy_stream(steps: GraphSteps, expect: Expectations) -> None:
    """While a blocking stream captures, the legacy stream -> 906. A query of its status spoils nothing; work does."""
    world, driver = steps.world, steps.driver
    stream, memory, status = world.new_stream(flags=0), world.new_allocation(512), c_int()
    steps.begin(stream)
    expect("status", driver.cuStreamIsCapturing(None, byref(status)), Result.STREAM_CAPTURE_IMPLICIT, "D")
    expect.equal("the capture", steps.status(stream), ACTIVE, "D")
    expect("a fill", driver.cuMemsetD8Async(memory, 1, 8, None), Result.STREAM_CAPTURE_IMPLICIT, "D")
    expect("the end", steps.end(stream)[0], Result.STREAM_CAPTURE_INVALIDATED, "D")


def test_rule_capture_ends_in_its_thread(steps: GraphSteps, expect: Expectations) -> None:
    """Ending a capture of global mode in another thread -> 908; a relaxed one may end anywhere."""
    world, stream, answers = steps.world, steps.world.new_stream(), []

    def end() -> None:
        world.use(world.device)
        answers.append(steps.end(stream)[0])

    for mode in (GLOBAL, RELAXED):
        steps.begin(stream, mode)
        thread = threading.Thread(target=end)
        thread.start()
        thread.join()
        if mode == GLOBAL and world.driver.is_emulated:
            expect("then in its own", steps.end(stream)[0], Result.SUCCESS, "I")
    expect.equal("answers", answers, [Result.STREAM_CAPTURE_WRONG_THREAD, Result.SUCCESS], "D")


@pytest.mark.emulator_only("the emulator's own function")
def test_rule_capture_of_declared_work(steps: GraphSteps, expect: Expectations) -> None:
    """Work that declares its memory is captured, and its memory is guarded while a launch of the graph is pending."""
    world, driver, stream = steps.world, steps.driver, steps.world.new_stream()
    size = world.granularity
    address, _ = world.new_mapping(size)
    from helpers.abi_types import EmulatorRange

    ranges = (EmulatorRange * 1)(EmulatorRange(address, size, 1))
    steps.begin(stream)
    expect("launch", driver.memlakeEmulatorLaunch(stream, b"kernel", ranges, 1), Result.SUCCESS, "D")
    code, graph = steps.end(stream)
    executable = steps.executable(graph)
    with world.blocked(stream):
        world.must("launch", driver.cuGraphLaunch(executable, stream))
        expect.violation("unmapping under it", driver.cuMemUnmap(address, size), "I")
    world.must("cuStreamSynchronize", driver.cuStreamSynchronize(stream))
    expect("the end", code, Result.SUCCESS, "D")
