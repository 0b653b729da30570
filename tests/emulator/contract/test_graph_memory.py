"""Rules of memory nodes (B8 of the contract): fixed addresses, memory at the launch, and who may free it."""

from __future__ import annotations

from ctypes import byref, c_uint64, c_void_p
from typing import TYPE_CHECKING

import pytest

from helpers.abi_graphs import (
    AUTO_FREE_ON_LAUNCH,
    RESERVED,
    RESERVED_HIGH,
    USED,
    USED_HIGH,
    AllocParams,
    GraphSteps,
    device_copy,
    row,
)
from helpers.abi_types import MemLocation, Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

MIB = 1 << 20


@pytest.fixture
def steps(world: World) -> Iterator[GraphSteps]:
    """The steps of graphs in this world."""
    steps = GraphSteps(world)
    yield steps
    steps.close()


def synchronized(world: World, stream: int) -> None:
    """Waits for a stream."""
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))


def test_rule_graph_memory_lives_from_launch_to_free_node(steps: GraphSteps, expect: Expectations) -> None:
    """The address is fixed at the node; the launch takes memory; work between the nodes uses it; it can be repeated."""
    world, driver, graph, stream = steps.world, steps.driver, steps.graph(), steps.world.new_stream()
    output, before = world.new_allocation(512), world.free_memory()
    code, alloc, address = steps.add_alloc(graph, 4 * MIB)
    expect("adding", code, Result.SUCCESS, "D")
    expect.that("it has an address", address != 0, "D")
    expect.equal("free memory after the node", world.free_memory(), before, "D")
    fill = steps.must(steps.add_fill(graph, row(address, 9, 64), [alloc]))
    copy = steps.must(steps.add_copy(graph, device_copy(output, address, 64), [fill]))
    steps.must(steps.add_free(graph, address, [copy]))
    executable = steps.executable(graph)
    for _ in range(2):
        expect("launch", driver.cuGraphLaunch(executable, stream), Result.SUCCESS, "D")
    synchronized(world, stream)
    expect.equal("the bytes", world.read(output, 64), (0, bytes([9] * 64)), "D")
    expect.that("the device has less free memory", world.free_memory() <= before - 4 * MIB, "D")
    expect.that("reserved", steps.memory(RESERVED) >= 4 * MIB, "D")
    expect("freeing it outside", driver.cuMemFreeAsync(address, stream), Result.INVALID_VALUE, "D")
    world.must("destroy", steps.destroy_exec(executable))
    world.must("destroy", steps.destroy(graph))
    expect.that("the memory stays with the driver", steps.memory(RESERVED) >= 4 * MIB, "D")
    expect("trim", driver.cuDeviceGraphMemTrim(world.device), Result.SUCCESS, "D")
    expect.equal("after a trim", (steps.memory(RESERVED), world.free_memory()), (0, before), "D")


def test_rule_graph_memory_outlives_the_launch(steps: GraphSteps, expect: Expectations) -> None:
    """Memory without a free node is used and freed in stream order; a launch before that -> 1, no effect."""
    world, driver, graph, stream = steps.world, steps.driver, steps.graph(), steps.world.new_stream()
    _, alloc, address = steps.add_alloc(graph, MIB)
    steps.must(steps.add_fill(graph, row(address, 4, 16), [alloc]))
    executable = steps.executable(graph)
    world.must("launch", driver.cuGraphLaunch(executable, stream))
    with expect.no_effect(world, "D"):
        expect("a second launch", driver.cuGraphLaunch(executable, stream), Result.INVALID_VALUE, "D")
    world.must("fill", driver.cuMemsetD8Async(address + 8, 5, 8, stream))
    synchronized(world, stream)
    expect.equal("the bytes", world.read(address, 16), (0, bytes([4] * 8 + [5] * 8)), "D")
    expect("cuMemFreeAsync", driver.cuMemFreeAsync(address, stream), Result.SUCCESS, "D")
    expect("again", driver.cuMemFreeAsync(address, stream), Result.INVALID_VALUE, "D")
    expect("the next launch", driver.cuGraphLaunch(executable, stream), Result.SUCCESS, "D")
    synchronized(world, stream)
    expect("cuMemFree", driver.cuMemFree(address), Result.SUCCESS, "D")


def test_rule_graph_memory_auto_free(steps: GraphSteps, expect: Expectations) -> None:
    """With AUTO_FREE_ON_LAUNCH a launch frees what the launch before left."""
    world, driver, graph, stream = steps.world, steps.driver, steps.graph(), steps.world.new_stream()
    _, _, address = steps.add_alloc(graph, MIB)
    executable = steps.executable(graph, AUTO_FREE_ON_LAUNCH)
    for _ in range(3):
        expect("launch", driver.cuGraphLaunch(executable, stream), Result.SUCCESS, "D")
    synchronized(world, stream)
    expect("freeing the last", driver.cuMemFreeAsync(address, stream), Result.SUCCESS, "D")
    synchronized(world, stream)


def test_rule_graph_memory_survives_its_graph(steps: GraphSteps, expect: Expectations) -> None:
    """Destroying graph and executable graph leaves the allocation to the program."""
    world, driver, graph, stream = steps.world, steps.driver, steps.graph(), steps.world.new_stream()
    _, _, address = steps.add_alloc(graph, MIB)
    executable = steps.executable(graph)
    world.must("launch", driver.cuGraphLaunch(executable, stream))
    world.must("destroy", steps.destroy_exec(executable))
    world.must("destroy", steps.destroy(graph))
    expect("use", driver.cuMemsetD8Async(address, 1, MIB, stream), Result.SUCCESS, "D")
    expect("free", driver.cuMemFreeAsync(address, stream), Result.SUCCESS, "D")
    synchronized(world, stream)


def test_rule_graph_memory_freed_by_another_graph(steps: GraphSteps, expect: Expectations) -> None:
    """A free node in another graph frees it; then the own graph cannot get one. Twice in one graph -> 1."""
    world, driver, stream = steps.world, steps.driver, steps.world.new_stream()
    making, freeing = steps.graph(), steps.graph()
    _, alloc, address = steps.add_alloc(making, MIB)
    expect("in another graph", steps.add_free(freeing, address)[0], Result.SUCCESS, "D")
    expect("twice", steps.add_free(freeing, address)[0], Result.INVALID_VALUE, "D")
    expect("then in its own", steps.add_free(making, address, [alloc])[0], Result.INVALID_VALUE, "D")
    plain = world.new_allocation(512)
    expect("memory of cuMemAlloc", steps.add_free(freeing, plain)[0], Result.INVALID_VALUE, "D")
    makes, frees = steps.executable(making), steps.executable(freeing)
    expect("freeing what is not allocated", driver.cuGraphLaunch(frees, stream), Result.INVALID_VALUE, "I")
    for _ in range(2):
        expect("the graph that allocates", driver.cuGraphLaunch(makes, stream), Result.SUCCESS, "D")
        expect("the graph that frees", driver.cuGraphLaunch(frees, stream), Result.SUCCESS, "D")
    synchronized(world, stream)


def test_rule_graph_memory_limits_its_graph(steps: GraphSteps, expect: Expectations) -> None:
    """A graph with memory nodes: no removal of nodes or edges, no clone, no child, one executable graph at a time."""
    world, driver, graph, parent = steps.world, steps.driver, steps.graph(), steps.graph()
    _, alloc, address = steps.add_alloc(graph, MIB)
    free = steps.must(steps.add_free(graph, address, [alloc]))
    out = c_void_p()
    executable = steps.executable(graph)
    with expect.no_effect(world, "D"):
        expect("removing a node", driver.cuGraphDestroyNode(free), Result.INVALID_VALUE, "D")
        code = driver.cuGraphRemoveDependencies(graph, steps.nodes(alloc)[0], *steps.nodes(free))
        expect("removing an edge", code, Result.INVALID_VALUE, "D")
        expect("a clone", driver.cuGraphClone(byref(out), graph), Result.INVALID_VALUE, "D")
        code = driver.cuGraphAddChildGraphNode(byref(out), parent, None, 0, graph)
        expect("a child", code, Result.INVALID_VALUE, "D")
        expect("a second executable graph", steps.instantiate(graph)[0], Result.INVALID_VALUE, "D")
    world.must("destroy", steps.destroy_exec(executable))
    expect("after the first is gone", steps.instantiate(graph)[0], Result.SUCCESS, "D")


@pytest.mark.world(memory="64MiB")
def test_rule_graph_memory_runs_out(steps: GraphSteps, expect: Expectations) -> None:
    """A launch without memory -> 2, no effect; a node of more than the device has -> 2."""
    world, driver, graph, stream = steps.world, steps.driver, steps.graph(), steps.world.new_stream()
    if not driver.is_emulated:
        pytest.skip("a real device has more memory")
    for _ in range(2):
        steps.add_alloc(graph, 24 * MIB)
    executable, held = steps.executable(graph), world.new_allocation(24 * MIB)
    with expect.no_effect(world, "I"):
        expect("launch", driver.cuGraphLaunch(executable, stream), Result.OUT_OF_MEMORY, "I")
        expect("a node", steps.add_alloc(steps.graphs[0], 65 * MIB)[0], Result.OUT_OF_MEMORY, "I")
    world.must("cuMemFree", world.free_allocation(held))
    expect("with memory", driver.cuGraphLaunch(executable, stream), Result.SUCCESS, "D")
    synchronized(world, stream)
    for entry in driver.ledger()["pool_allocations"]:
        world.must("cuMemFreeAsync", driver.cuMemFreeAsync(entry["address"], stream))
    synchronized(world, stream)


def test_rule_graph_memory_is_shared_by_graphs(steps: GraphSteps, expect: Expectations) -> None:
    """Two graphs in one stream, each of which frees its memory, need the memory once."""
    world, driver, stream = steps.world, steps.driver, steps.world.new_stream()
    for _ in range(2):
        graph = steps.graph()
        _, alloc, address = steps.add_alloc(graph, 8 * MIB)
        steps.must(steps.add_free(graph, address, [alloc]))
        world.must("launch", driver.cuGraphLaunch(steps.executable(graph), stream))
    synchronized(world, stream)
    expect.equal("reserved", steps.memory(RESERVED), 8 * MIB, "O")


def test_rule_graph_memory_attributes(steps: GraphSteps, expect: Expectations) -> None:
    """High-water marks can only be reset to 0; current values cannot be set; unknown attributes and devices."""
    world, driver, graph, stream = steps.world, steps.driver, steps.graph(), steps.world.new_stream()
    _, alloc, address = steps.add_alloc(graph, MIB)
    steps.must(steps.add_free(graph, address, [alloc]))
    executable = steps.executable(graph)
    world.must("launch", driver.cuGraphLaunch(executable, stream))
    synchronized(world, stream)
    zero, one = c_uint64(0), c_uint64(1)
    expect.that("used after the free", steps.memory(USED) > 0, "O")
    world.must("trim", driver.cuDeviceGraphMemTrim(world.device))
    expect.equal("used after a trim", steps.memory(USED), 0, "D")
    expect.that("the marks stay", min(steps.memory(USED_HIGH), steps.memory(RESERVED_HIGH)) > 0, "D")
    for attribute in (USED, RESERVED):
        code = driver.cuDeviceSetGraphMemAttribute(world.device, attribute, byref(zero))
        expect("setting a current value", code, Result.INVALID_VALUE, "D")
    for attribute in (USED_HIGH, RESERVED_HIGH):
        code = driver.cuDeviceSetGraphMemAttribute(world.device, attribute, byref(one))
        expect("setting a mark to 1", code, Result.INVALID_VALUE, "D")
        code = driver.cuDeviceSetGraphMemAttribute(world.device, attribute, byref(zero))
        expect("resetting a mark", code, Result.SUCCESS, "D")
        expect.equal("the mark", steps.memory(attribute), 0, "D")
    expect("attribute 9", driver.cuDeviceGetGraphMemAttribute(world.device, 9, byref(one)), Result.INVALID_VALUE, "I")
    expect("a node of 0 bytes", steps.add_alloc(graph, 0)[0], Result.INVALID_VALUE, "O")
    expect("a bad device", driver.cuDeviceGraphMemTrim(world.count), Result.INVALID_DEVICE, "D")
    expect("the next launch", driver.cuGraphLaunch(executable, stream), Result.SUCCESS, "D")
    synchronized(world, stream)


@pytest.mark.emulator_only("a real driver may corrupt memory")
def test_rule_graph_memory_must_be_ordered_in_the_graph(steps: GraphSteps, expect: Expectations) -> None:
    """A node that uses memory of a graph without an edge from the allocation, or to the free, is a violation."""
    world, driver, stream = steps.world, steps.driver, steps.world.new_stream()
    early = steps.graph()
    _, _, address = steps.add_alloc(early, MIB)
    steps.must(steps.add_fill(early, row(address, 1, 8)))
    late = steps.graph()
    _, alloc, other = steps.add_alloc(late, MIB)
    steps.must(steps.add_fill(late, row(other, 1, 8), [alloc]))
    steps.must(steps.add_free(late, other, [alloc]))
    for what, graph in (("not behind the allocation", early), ("not before the free", late)):
        executable = steps.executable(graph)
        with expect.no_effect(world, "I"):
            expect.violation(what, driver.cuGraphLaunch(executable, stream), "I")


@pytest.mark.emulator_only("a real driver may corrupt memory")
def test_rule_graph_memory_freed_under_work_of_another_stream(steps: GraphSteps, expect: Expectations) -> None:
    """A free of a graph's memory that is not ordered behind queued work which uses it is a violation."""
    world, driver, graph, stream = steps.world, steps.driver, steps.graph(), steps.world.new_stream()
    _, _, address = steps.add_alloc(graph, MIB)
    world.must("launch", driver.cuGraphLaunch(steps.executable(graph), stream))
    synchronized(world, stream)
    other = world.new_stream()
    with world.blocked(other):
        world.must("fill", driver.cuMemsetD8Async(address, 1, 8, other))
        expect.violation("free", driver.cuMemFreeAsync(address, stream), "I")
    synchronized(world, other)
    event = world.new_event()
    world.must("record", driver.cuEventRecord(event, other))
    world.must("wait", driver.cuStreamWaitEvent(stream, event, 0))
    expect("an ordered free", driver.cuMemFreeAsync(address, stream), Result.SUCCESS, "D")
    synchronized(world, stream)


@pytest.mark.world(devices=2, peers="none")
def test_rule_graph_managed_allocation_node(steps: GraphSteps, expect: Expectations) -> None:
    """An allocation node of managed memory says so, and devices that are no peers may use its memory."""
    world, driver, graph, stream = steps.world, steps.driver, steps.graph(), steps.world.new_stream()
    node, params = c_void_p(), AllocParams()
    params.poolProps.alloc_type, params.poolProps.location, params.bytesize = 2, MemLocation(1, world.device), MIB
    code = driver.cuGraphAddMemAllocNode(byref(node), graph, *steps.nodes(), byref(params))
    expect("adding", code, Result.SUCCESS, "D")
    told = AllocParams()
    expect("its parameters", driver.cuGraphMemAllocNodeGetParams(node, byref(told)), Result.SUCCESS, "D")
    expect.equal("allocType", told.poolProps.alloc_type, 2, "D")
    world.must("launch", driver.cuGraphLaunch(steps.executable(graph), stream))
    synchronized(world, stream)
    other = world.new_stream(device=world.devices[1])
    expect("a fill by the other device", driver.cuMemsetD8Async(params.dptr, 7, 64, other), Result.SUCCESS, "I")
    synchronized(world, other)
    expect.equal("the bytes", world.read(params.dptr, 2), (0, bytes([7, 7])), "I")
    expect("free", driver.cuMemFreeAsync(params.dptr, stream), Result.SUCCESS, "D")
    synchronized(world, stream)
