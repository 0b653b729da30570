"""Rules of graphs: nodes and edges, executable graphs, launches and updates."""

from __future__ import annotations

from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import TYPE_CHECKING

import pytest

from helpers.abi_graphs import EMPTY, GRAPH, MEMSET, GraphSteps, HostParams, MemsetParams, UpdateInfo, device_copy, row
from helpers.abi_types import HostFunction, Result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World


@pytest.fixture
def steps(world: World) -> Iterator[GraphSteps]:
    """The steps of graphs in this world."""
    steps = GraphSteps(world)
    yield steps
    steps.close()


def synchronized(world: World, stream: int) -> None:
    """Waits for a stream."""
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))


def test_rule_graph_nodes_and_edges(steps: GraphSteps, expect: Expectations) -> None:
    """Edges are listed from both ends; an edge that exists, leads to itself or leaves the graph -> 1, no effect."""
    driver, world, graph = steps.driver, steps.world, steps.graph()
    first, second = steps.empty(graph), steps.empty(graph)
    third = steps.empty(graph, first)
    stranger = steps.empty(steps.graph())
    expect.equal("nodes", steps.count("cuGraphGetNodes", graph), 3, "D")
    expect.equal("roots", steps.count("cuGraphGetRootNodes", graph), 2, "D")
    expect.equal("dependencies of the third", steps.count("cuGraphNodeGetDependencies", third), 1, "D")
    expect.equal("dependents of the first", steps.count("cuGraphNodeGetDependentNodes", first), 1, "D")
    with expect.no_effect(world, "D"):
        for what, start, end in (
            ("an edge that exists", first, third),
            ("to itself", first, first),
            ("to another graph", first, stranger),
        ):
            code = driver.cuGraphAddDependencies(graph, steps.nodes(start)[0], *steps.nodes(end))
            expect(what, code, Result.INVALID_VALUE, "D")
        code = driver.cuGraphRemoveDependencies(graph, steps.nodes(second)[0], *steps.nodes(third))
        expect("removing an edge that is not there", code, Result.INVALID_VALUE, "D")
    expect("adding an edge", driver.cuGraphAddDependencies(graph, steps.nodes(second)[0], *steps.nodes(third)), 0, "D")
    expect.equal("dependencies now", steps.count("cuGraphNodeGetDependencies", third), 2, "D")
    expect("cuGraphDestroyNode", driver.cuGraphDestroyNode(second), Result.SUCCESS, "D")
    expect.equal("dependencies after it", steps.count("cuGraphNodeGetDependencies", third), 1, "D")
    kind = c_int(-1)
    if driver.is_emulated:
        expect("its type", driver.cuGraphNodeGetType(second, byref(kind)), Result.INVALID_VALUE, "I")
    expect("type", driver.cuGraphNodeGetType(third, byref(kind)), Result.SUCCESS, "D")
    expect.equal("the type", kind.value, EMPTY, "D")


def test_rule_graph_lists_fill_the_array(steps: GraphSteps, expect: Expectations) -> None:
    """A larger array gets NULL behind the nodes, and the count is what was written."""
    graph = steps.graph()
    nodes = [steps.empty(graph), steps.empty(graph)]
    array, count = (c_void_p * 4)(7, 7, 7, 7), c_size_t(4)
    expect("cuGraphGetNodes", steps.driver.cuGraphGetNodes(graph, array, byref(count)), Result.SUCCESS, "D")
    expect.equal("the array", (count.value, list(array)), (2, [*nodes, None, None]), "D")


def test_rule_graph_cycle(steps: GraphSteps, expect: Expectations) -> None:
    """A cycle is noticed when the graph is instantiated."""
    graph = steps.graph()
    first = steps.empty(graph)
    second = steps.empty(graph, first)
    code = steps.driver.cuGraphAddDependencies(graph, steps.nodes(second)[0], *steps.nodes(first))
    expect("adding the edge back", code, Result.SUCCESS, "D")
    expect("instantiating", steps.instantiate(graph)[0], Result.INVALID_VALUE, "D")


def test_rule_graph_launch_runs_nodes_in_order(steps: GraphSteps, expect: Expectations) -> None:
    """A launch runs fills, copies and host functions in the order of the edges, every time."""
    world, graph, stream = steps.world, steps.graph(), steps.world.new_stream()
    one, other = world.new_allocation(512), world.new_allocation(512)
    steps.zero(other, 512)
    calls: list[int] = []
    function = HostFunction(lambda _: calls.append(len(calls)))
    fill = steps.must(steps.add_fill(graph, row(one, 7, 256)))
    copy = steps.must(steps.add_copy(graph, device_copy(other, one, 256), [fill]))
    host, params = c_void_p(), HostParams(function, None)
    world.must("host", world.driver.cuGraphAddHostNode(byref(host), graph, *steps.nodes(copy), byref(params)))
    executable = steps.executable(graph)
    expect("upload", world.driver.cuGraphUpload(executable, stream), Result.SUCCESS, "D")
    for launch in (1, 2):
        expect("launch", world.driver.cuGraphLaunch(executable, stream), Result.SUCCESS, "D")
        synchronized(world, stream)
        expect.equal("calls of the host function", len(calls), launch, "D")
    expect.equal("the copied bytes", world.read(other, 257), (0, bytes([7] * 256 + [0])), "D")


def test_rule_graph_copy_of_planes(steps: GraphSteps, expect: Expectations) -> None:
    """A copy node with pitches copies rows of planes and leaves the gaps."""
    world, graph, stream = steps.world, steps.graph(), steps.world.new_stream()
    source, target = world.new_allocation(512), world.new_allocation(512)
    world.must("write", world.write(source, bytes(range(64))))
    steps.zero(target, 512)
    params = device_copy(target, source, 2)
    params.srcPitch, params.srcHeight, params.dstPitch, params.dstHeight = 8, 4, 4, 2
    params.srcXInBytes, params.srcY, params.Height, params.Depth = 1, 1, 2, 2
    steps.must(steps.add_copy(graph, params))
    world.must("launch", world.driver.cuGraphLaunch(steps.executable(graph), stream))
    synchronized(world, stream)
    want = bytes([9, 10, 0, 0, 17, 18, 0, 0, 41, 42, 0, 0, 49, 50, 0, 0])
    expect.equal("the bytes", world.read(target, 16), (0, want), "D")
    params.srcPitch = 2
    expect("a pitch below the width", steps.add_copy(graph, params)[0], Result.INVALID_VALUE, "D")


def test_rule_graph_parameters_are_checked(steps: GraphSteps, expect: Expectations) -> None:
    """Wrong parameters, NULL, unknown graphs and duplicate dependencies -> 1, no effect."""
    world, driver, graph = steps.world, steps.driver, steps.graph()
    memory, node = world.new_allocation(512), c_void_p(77)
    first = steps.empty(graph)
    with expect.no_effect(world, "D"):
        for what, params in (
            ("an element of 3 bytes", MemsetParams(memory, 0, 1, 3, 4, 1)),
            ("an unaligned element", MemsetParams(memory + 1, 0, 1, 4, 4, 1)),
            ("no rows", MemsetParams(memory, 0, 1, 1, 4, 0)),
            ("a pitch below the width", MemsetParams(memory, 2, 1, 1, 4, 2)),
        ):
            expect(what, steps.add_fill(graph, params)[0], Result.INVALID_VALUE, "D")
        expect("beyond the memory", steps.add_fill(graph, row(memory, 1, 1 << 30))[0], Result.INVALID_VALUE, "I")
        duplicate = driver.cuGraphAddEmptyNode(byref(node), graph, *steps.nodes(first, first))
        expect("a dependency twice", duplicate, Result.INVALID_VALUE, "D")
        expect("no place for the node", driver.cuGraphAddEmptyNode(None, graph, None, 0), Result.INVALID_VALUE, "I")
        expect("flags", driver.cuGraphCreate(byref(node), 1), Result.INVALID_VALUE, "D")
        if driver.is_emulated:
            expect("a bogus graph", driver.cuGraphAddEmptyNode(byref(node), 0xDEAD0000, None, 0), 1, "I")
    expect.equal("the out-parameter", node.value, 77, "I")


def test_rule_graph_clone(steps: GraphSteps, expect: Expectations) -> None:
    """A clone has its own nodes, which are found by those of the original; it does not follow later changes."""
    driver, graph = steps.driver, steps.graph()
    first = steps.empty(graph)
    second = steps.empty(graph, first)
    clone, found = c_void_p(), c_void_p()
    expect("cuGraphClone", driver.cuGraphClone(byref(clone), graph), Result.SUCCESS, "D")
    steps.graphs.append(clone.value or 0)
    expect("finding", driver.cuGraphNodeFindInClone(byref(found), second, clone), Result.SUCCESS, "D")
    expect.that("another node", found.value != second, "D")
    expect.equal("with its edge", steps.count("cuGraphNodeGetDependencies", found.value or 0), 1, "D")
    third = steps.empty(graph)
    expect.equal("nodes of the clone", steps.count("cuGraphGetNodes", clone.value or 0), 2, "D")
    missing = driver.cuGraphNodeFindInClone(byref(found), third, clone)
    expect("a node that is not in the clone", missing, Result.INVALID_VALUE, "D")


def test_rule_graph_child(steps: GraphSteps, expect: Expectations) -> None:
    """A child graph is a copy that belongs to its node: it runs with the parent and cannot be destroyed alone."""
    world, driver = steps.world, steps.driver
    memory, stream, child, graph = world.new_allocation(512), world.new_stream(), steps.graph(), steps.graph()
    steps.zero(memory, 512)
    steps.must(steps.add_fill(child, row(memory, 5, 16)))
    node, inner, kind = c_void_p(), c_void_p(), c_int()
    code = driver.cuGraphAddChildGraphNode(byref(node), graph, None, 0, child)
    expect("adding", code, Result.SUCCESS, "D")
    world.must("type", driver.cuGraphNodeGetType(node, byref(kind)))
    expect.equal("the type", kind.value, GRAPH, "D")
    world.must("child", driver.cuGraphChildGraphNodeGetGraph(node, byref(inner)))
    expect.that("the graph in the node is another one", inner.value != child, "D")
    expect("destroying it alone", driver.cuGraphDestroy(inner), Result.INVALID_VALUE, "I")
    world.must("destroy", steps.destroy(child))
    world.must("launch", driver.cuGraphLaunch(steps.executable(graph), stream))
    synchronized(world, stream)
    expect.equal("the bytes", world.read(memory, 17), (0, bytes([5] * 16 + [0])), "D")


def test_rule_graph_exec_is_a_copy(steps: GraphSteps, expect: Expectations) -> None:
    """An executable graph keeps its nodes when the graph changes or ends; nodes can be changed and switched off."""
    world, driver = steps.world, steps.driver
    memory, stream, graph = world.new_allocation(512), world.new_stream(), steps.graph()
    context = world.contexts[world.device]
    node = steps.must(steps.add_fill(graph, row(memory, 1, 4)))
    executable = steps.executable(graph)
    world.must("of the graph", driver.cuGraphMemsetNodeSetParams(node, byref(row(memory, 2, 4))))

    def launched() -> bytes:
        steps.zero(memory, 512)
        world.must("cuCtxSynchronize", driver.cuStreamSynchronize(0))
        world.must("launch", driver.cuGraphLaunch(executable, stream))
        synchronized(world, stream)
        return world.read(memory, 4)[1]

    expect.equal("after a change of the graph", launched(), bytes([1] * 4), "D")
    changed = driver.cuGraphExecMemsetNodeSetParams(executable, node, byref(row(memory, 3, 2)), context)
    expect("changing the executable graph", changed, Result.SUCCESS, "D")
    expect.equal("after it", launched(), bytes([3, 3, 0, 0]), "D")
    expect("switching off", driver.cuGraphNodeSetEnabled(executable, node, 0), Result.SUCCESS, "D")
    expect.equal("switched off", launched(), bytes(4), "D")
    enabled = c_uint(7)
    world.must("cuGraphNodeGetEnabled", driver.cuGraphNodeGetEnabled(executable, node, byref(enabled)))
    expect.equal("is enabled", enabled.value, 0, "D")
    world.must("switching on", driver.cuGraphNodeSetEnabled(executable, node, 1))
    world.must("destroy", steps.destroy(graph))
    expect.equal("after the graph", launched(), bytes([3, 3, 0, 0]), "D")
    flags = c_uint64(9)
    world.must("cuGraphExecGetFlags", driver.cuGraphExecGetFlags(executable, byref(flags)))
    expect.equal("flags", flags.value, 0, "D")
    expect("unknown flags", steps.instantiate(steps.graph(), 1 << 20)[0], Result.INVALID_VALUE, "D")


def test_rule_graph_only_copies_and_fills_are_switched_off(steps: GraphSteps, expect: Expectations) -> None:
    """cuGraphNodeSetEnabled of an empty node -> 1."""
    graph = steps.graph()
    node = steps.empty(graph)
    code = steps.driver.cuGraphNodeSetEnabled(steps.executable(graph), node, 0)
    expect("an empty node", code, Result.INVALID_VALUE, "D")


def test_rule_graph_update(steps: GraphSteps, expect: Expectations) -> None:
    """An update takes parameters of a graph of the same shape; another shape or kind -> 910, no effect."""
    world, driver = steps.world, steps.driver
    memory, stream = world.new_allocation(512), world.new_stream()
    steps.zero(memory, 512)
    graph, same, longer, other = (steps.graph() for _ in range(4))
    steps.must(steps.add_fill(graph, row(memory, 1, 4)))
    steps.must(steps.add_fill(same, row(memory, 2, 4)))
    steps.empty(longer, steps.must(steps.add_fill(longer, row(memory, 3, 4))))
    steps.empty(other)
    executable, info = steps.executable(graph), UpdateInfo()
    for what, wanted, result in (("more nodes", longer, 2), ("another kind", other, 3)):
        code = driver.cuGraphExecUpdate(executable, wanted, byref(info))
        expect(what, code, Result.GRAPH_EXEC_UPDATE_FAILURE, "D")
        expect.equal(f"{what}: the reason", info.result, result, "D")
    expect("the same shape", driver.cuGraphExecUpdate(executable, same, byref(info)), Result.SUCCESS, "D")
    expect.equal("the result", info.result, 0, "D")
    world.must("launch", driver.cuGraphLaunch(executable, stream))
    synchronized(world, stream)
    expect.equal("the bytes", world.read(memory, 5), (0, bytes([2, 2, 2, 2, 0])), "D")


def test_rule_graph_events(steps: GraphSteps, expect: Expectations) -> None:
    """A record node records its event at each launch; a wait node orders the launch behind an event."""
    world, driver, graph = steps.world, steps.driver, steps.graph()
    behind, stream = world.new_stream(), world.new_stream()
    recorded, awaited, node = world.new_event(), world.new_event(), c_void_p()
    world.must("wait", driver.cuGraphAddEventWaitNode(byref(node), graph, None, 0, awaited))
    world.must("record", driver.cuGraphAddEventRecordNode(byref(node), graph, *steps.nodes(node.value or 0), recorded))
    executable = steps.executable(graph)
    expect("before a launch", driver.cuEventQuery(recorded), Result.SUCCESS, "D")
    with world.blocked(behind):
        world.must("cuEventRecord", driver.cuEventRecord(awaited, behind))
        world.must("launch", driver.cuGraphLaunch(executable, stream))
        expect("while the awaited stream is blocked", driver.cuEventQuery(recorded), Result.NOT_READY, "D")
    synchronized(world, stream)
    expect("after it", driver.cuEventQuery(recorded), Result.SUCCESS, "D")


def test_rule_graph_launches_of_one_exec_do_not_overlap(steps: GraphSteps, expect: Expectations) -> None:
    """A second launch in another stream runs behind the first."""
    world, driver, graph = steps.world, steps.driver, steps.graph()
    first, second = world.new_stream(), world.new_stream()
    steps.must(steps.add_fill(graph, row(world.new_allocation(512), 1, 4)))
    executable = steps.executable(graph)
    with world.blocked(first):
        world.must("launch", driver.cuGraphLaunch(executable, first))
        world.must("launch", driver.cuGraphLaunch(executable, second))
        expect("the second stream", driver.cuStreamQuery(second), Result.NOT_READY, "D")
    synchronized(world, second)
    expect("the first stream", driver.cuStreamQuery(first), Result.SUCCESS, "D")


def test_rule_graph_user_objects(steps: GraphSteps, expect: Expectations) -> None:
    """The destructor is called once, when neither the program, the graph nor an executable graph has a reference."""
    import threading

    world, driver, graph = steps.world, steps.driver, steps.graph()
    is_gone, called, handle = threading.Event(), [], c_void_p()
    destroy = HostFunction(lambda _: (called.append(1), is_gone.set())[1])
    world._callbacks.append(destroy)
    expect("flags 0", driver.cuUserObjectCreate(byref(handle), None, destroy, 1, 0), Result.INVALID_VALUE, "D")
    world.must("cuUserObjectCreate", driver.cuUserObjectCreate(byref(handle), None, destroy, 1, 1))
    expect("count 0", driver.cuGraphRetainUserObject(graph, handle, 0, 0), Result.INVALID_VALUE, "D")
    world.must("cuGraphRetainUserObject", driver.cuGraphRetainUserObject(graph, handle, 1, 1))
    executable = steps.executable(graph)
    world.must("destroy", steps.destroy(graph))
    expect.equal("while the executable graph is there", called, [], "D")
    world.must("destroy", steps.destroy_exec(executable))
    is_gone.wait()
    expect.equal("calls of the destructor", called, [1], "D")


def test_rule_graph_dot_file(steps: GraphSteps, expect: Expectations, tmp_path: Path) -> None:
    """cuGraphDebugDotPrint writes nodes with their kinds, and edges; a path that cannot be written -> 304."""
    world, driver, graph = steps.world, steps.driver, steps.graph()
    fill = steps.must(steps.add_fill(graph, row(world.new_allocation(512), 1, 4)))
    steps.empty(graph, fill)
    path = tmp_path / "graph.dot"
    expect("writing", driver.cuGraphDebugDotPrint(graph, str(path).encode(), 1), Result.SUCCESS, "D")
    text = path.read_text(encoding="utf-8")
    expect.that("it is a DOT file", text.startswith("digraph") and text.count("->") == 1, "D")
    expect.that("with the kinds of nodes", "MEMSET" in text and "EMPTY" in text, "D")
    code = driver.cuGraphDebugDotPrint(graph, str(tmp_path / "none" / "graph.dot").encode(), 0)
    expect("a folder that is not there", code, Result.OPERATING_SYSTEM, "D")
    kind = c_int()
    world.must("type", driver.cuGraphNodeGetType(fill, byref(kind)))
    expect.equal("a fill's type", kind.value, MEMSET, "D")
