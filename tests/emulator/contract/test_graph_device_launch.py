"""Graphs that code on a device may launch: what they may contain. The host launches them, too."""

from __future__ import annotations

from ctypes import Structure, addressof, byref, c_char, c_int, c_uint64, c_void_p
from typing import TYPE_CHECKING

import pytest

from helpers.abi_graphs import (
    AUTO_FREE_ON_LAUNCH,
    DEVICE_LAUNCH,
    GraphSteps,
    HostParams,
    Memcpy3D,
    UpdateInfo,
    device_copy,
    row,
)
from helpers.abi_types import HostFunction, Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

INVALID_STRUCTURE, NODE_OPERATION_NOT_SUPPORTED, MULTIPLE_CONTEXTS = 2, 3, 4
"""CUgraphInstantiateResult."""
UPDATE_NOT_SUPPORTED = 6


class InstantiateParams(Structure):
    """CUDA_GRAPH_INSTANTIATE_PARAMS."""

    _fields_ = (("flags", c_uint64), ("hUploadStream", c_void_p), ("hErrNode_out", c_void_p), ("result_out", c_int))


@pytest.fixture
def steps(world: World) -> Iterator[GraphSteps]:
    """The steps of graphs in this world."""
    steps = GraphSteps(world)
    yield steps
    steps.close()


def refusal(steps: GraphSteps, graph: int) -> tuple[int, int, int]:
    """The answer to an instantiation that must fail: the code, the reason and the node."""
    params, executable = InstantiateParams(flags=DEVICE_LAUNCH), c_void_p()
    code = steps.driver.cuGraphInstantiateWithParams(byref(executable), graph, byref(params))
    return code, params.result_out, params.hErrNode_out or 0


def host_copy(destination: int, source: int, size: int) -> Memcpy3D:
    """A copy of one row from host memory."""
    copy = Memcpy3D(srcMemoryType=1, srcHost=source, dstMemoryType=2, dstDevice=destination)
    copy.WidthInBytes, copy.Height, copy.Depth = size, 1, 1
    return copy


def test_rule_device_graph_runs_from_the_host(steps: GraphSteps, expect: Expectations) -> None:
    """A graph of copies and fills, also in child graphs, is instantiated for the device and launched by the host."""
    world, graph, inner, stream = steps.world, steps.graph(), steps.graph(), steps.world.new_stream()
    one, other, child = world.new_allocation(512), world.new_allocation(512), c_void_p()
    steps.zero(one, 512)
    fill = steps.must(steps.add_fill(graph, row(one, 7, 64)))
    steps.must(steps.add_copy(inner, device_copy(other, one, 64)))
    code = world.driver.cuGraphAddChildGraphNode(byref(child), graph, *steps.nodes(fill), inner)
    expect("a child graph", code, Result.SUCCESS, "D")
    executable = steps.executable(graph, DEVICE_LAUNCH)
    expect("upload", world.driver.cuGraphUpload(executable, stream), Result.SUCCESS, "D")
    expect("launch", world.driver.cuGraphLaunch(executable, stream), Result.SUCCESS, "D")
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
    expect.equal("the copied bytes", world.read(other, 64), (0, bytes([7] * 64)), "D")


def test_rule_device_graph_kinds_of_nodes(steps: GraphSteps, expect: Expectations) -> None:
    """Only kernels, copies, fills and child graphs, and at least one that is no child graph."""
    world, graph = steps.world, steps.graph()
    expect.equal("an empty graph", refusal(steps, graph), (Result.INVALID_VALUE, INVALID_STRUCTURE, 0), "D")
    child = c_void_p()
    code = world.driver.cuGraphAddChildGraphNode(byref(child), graph, *steps.nodes(), steps.graph())
    expect("an empty child", code, Result.SUCCESS, "D")
    expect.equal("only an empty child", refusal(steps, graph), (Result.INVALID_VALUE, INVALID_STRUCTURE, 0), "D")
    steps.must(steps.add_fill(graph, row(world.new_allocation(512), 7, 64)))
    steps.executable(graph, DEVICE_LAUNCH)
    function, node = HostFunction(lambda _: None), c_void_p()
    host = HostParams(function, None)
    world.must("host", world.driver.cuGraphAddHostNode(byref(node), graph, *steps.nodes(), byref(host)))
    expect.equal(
        "a host function",
        refusal(steps, graph),
        (Result.INVALID_VALUE, NODE_OPERATION_NOT_SUPPORTED, node.value),
        "D",
    )
    expect("for the host", steps.instantiate(graph)[0], Result.SUCCESS, "D")
    flags = DEVICE_LAUNCH | AUTO_FREE_ON_LAUNCH
    expect("with AUTO_FREE_ON_LAUNCH", steps.instantiate(graph, flags)[0], Result.INVALID_VALUE, "D")


def test_rule_device_graph_copies_no_pageable_memory(steps: GraphSteps, expect: Expectations) -> None:
    """A copy uses device memory or pinned memory, also after a change of the executable graph."""
    world, graph, stream = steps.world, steps.graph(), steps.world.new_stream()
    target, pageable, pinned = world.new_allocation(512), (c_char * 64)(), c_void_p()
    world.must("cuMemHostAlloc", world.driver.cuMemHostAlloc(byref(pinned), 64, 0))
    address = addressof(pageable)
    node = steps.must(steps.add_copy(graph, host_copy(target, address, 64)))
    expect.equal(
        "pageable memory", refusal(steps, graph), (Result.INVALID_VALUE, NODE_OPERATION_NOT_SUPPORTED, node), "D"
    )
    good = steps.graph()
    copy = steps.must(steps.add_copy(good, host_copy(target, pinned.value or 0, 64)))
    executable = steps.executable(good, DEVICE_LAUNCH)
    changed, context = host_copy(target, address, 64), world.contexts[world.device]
    code = world.driver.cuGraphExecMemcpyNodeSetParams(executable, copy, byref(changed), context)
    expect("a change to pageable memory", code, Result.INVALID_VALUE, "D")
    info = UpdateInfo()
    code = world.driver.cuGraphExecUpdate(executable, graph, byref(info))
    expect("an update to it", code, Result.GRAPH_EXEC_UPDATE_FAILURE, "D")
    expect.equal("the reason", info.result, UPDATE_NOT_SUPPORTED, "I")
    expect("launch", world.driver.cuGraphLaunch(executable, stream), Result.SUCCESS, "D")
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
    world.must("cuMemFreeHost", world.driver.cuMemFreeHost(pinned))


def test_rule_device_graph_has_one_context(steps: GraphSteps, expect: Expectations) -> None:
    """Nodes of two contexts are refused."""
    world, graph, other, node = steps.world, steps.graph(), c_void_p(), c_void_p()
    address = world.new_allocation(512)
    steps.must(steps.add_fill(graph, row(address, 7, 64)))
    world.must("cuCtxCreate", world.driver.cuCtxCreate(byref(other), 0, world.device))
    try:
        params = row(address, 8, 64)
        code = world.driver.cuGraphAddMemsetNode(byref(node), graph, *steps.nodes(), byref(params), other)
        world.must("cuGraphAddMemsetNode", code)
        expect.equal("two contexts", refusal(steps, graph), (Result.INVALID_VALUE, MULTIPLE_CONTEXTS, node.value), "D")
    finally:
        world.must("cuCtxDestroy", world.driver.cuCtxDestroy(other))
        world.use(world.device)
