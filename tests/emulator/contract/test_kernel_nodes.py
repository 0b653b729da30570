"""Kernel nodes of graphs: their parameters and attributes, captured launches, and what a launch of the graph counts."""

from __future__ import annotations

from ctypes import (
    POINTER,
    Structure,
    addressof,
    byref,
    c_int,
    c_size_t,
    c_uint,
    c_uint64,
    c_void_p,
    cast,
    create_string_buffer,
)
from typing import TYPE_CHECKING

import pytest

from helpers import abi_code as code
from helpers.abi_graphs import ACTIVE, KERNEL, MEMSET, GraphSteps, UpdateInfo, row
from helpers.abi_types import Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

pytestmark = pytest.mark.world(kernels="skip")
needs_setting = pytest.mark.emulator_only("the setting is the emulator's")
COOPERATIVE, STREAM_SERIALIZATION, PRIORITY = 2, 6, 8
FUNCTION_CHANGED, ATTRIBUTES_CHANGED = 7, 8


class KernelParams(Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("func", c_void_p),
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("kernelParams", c_void_p),
        ("extra", c_void_p),
        ("kern", c_void_p),
        ("ctx", c_void_p),
    )


class NodeParams(Structure):
    """CUgraphNodeParams of a kernel node."""

    _fields_ = (("type", c_int), ("reserved0", c_int * 3), ("kernel", KernelParams), ("rest", c_uint64 * 21))


@pytest.fixture
def steps(world: World) -> Iterator[GraphSteps]:
    """The steps of graphs in this world."""
    steps = GraphSteps(world)
    yield steps
    steps.close()


def params_of(
    function: int, parameters: code.Parameters | None = None, grid: tuple[int, int, int] = (1, 1, 1)
) -> KernelParams:
    """The parameters of a node that launches a function with blocks of 32 threads."""
    pointers = addressof(parameters.pointers) if parameters else None
    return KernelParams(func=function, grid=grid, block=(32, 1, 1), kernelParams=pointers)


def add_kernel(steps: GraphSteps, graph: int, params: KernelParams, before: Sequence[int] = ()) -> tuple[int, int]:
    """cuGraphAddKernelNode: the answer and the node."""
    node = c_void_p()
    answer = steps.driver.cuGraphAddKernelNode(byref(node), graph, *steps.nodes(*before), byref(params))
    return answer, node.value or 0


def told(steps: GraphSteps, node: int) -> KernelParams:
    """cuGraphKernelNodeGetParams."""
    params = KernelParams()
    steps.world.must("cuGraphKernelNodeGetParams", steps.driver.cuGraphKernelNodeGetParams(node, byref(params)))
    return params


def numbers(params: KernelParams) -> tuple[int, int, int]:
    """The three parameters of the kernel fill."""
    pointers = cast(c_void_p(params.kernelParams), POINTER(c_void_p))
    kinds = (c_uint64, c_int, c_uint64)
    first, second, third = (kind.from_address(pointers[i] or 0).value for i, kind in enumerate(kinds))
    return first, second, third


def nodes_of(steps: GraphSteps, graph: int) -> list[int]:
    """The nodes of a graph, in the order in which they were made."""
    array, count = (c_void_p * 8)(), c_size_t(8)
    steps.world.must("cuGraphGetNodes", steps.driver.cuGraphGetNodes(graph, array, byref(count)))
    return [node or 0 for node in array[: count.value]]


def kind(steps: GraphSteps, node: int) -> int:
    """cuGraphNodeGetType."""
    found = c_int(-1)
    steps.world.must("cuGraphNodeGetType", steps.driver.cuGraphNodeGetType(node, byref(found)))
    return found.value


def attribute(steps: GraphSteps, node: int, which: int) -> int:
    """cuGraphKernelNodeGetAttribute: the value by its first number."""
    value = (c_int * 16)()
    answer = steps.driver.cuGraphKernelNodeGetAttribute(node, which, byref(value))
    steps.world.must("cuGraphKernelNodeGetAttribute", answer)
    return value[0]


def skipped(world: World, name: str) -> int:
    """How many launches of a kernel the emulator has skipped."""
    return int(world.driver.ledger()["skipped_kernels"].get(name, 0))


@needs_setting
@pytest.mark.world(kernels="refuse")
def test_by_default_a_kernel_node_is_refused_and_the_setting_is_named(steps: GraphSteps, expect: Expectations) -> None:
    world, graph, stream = steps.world, steps.graph(), steps.world.new_stream()
    with code.loaded(world) as module:
        nothing = code.function(world, module, "nothing")
        expect("node", add_kernel(steps, graph, params_of(nothing))[0], Result.NOT_SUPPORTED, "I")
        expect.that("the setting is named", "kernels=skip" in world.driver.last_error(), "I")
        steps.begin(stream)
        expect("captured", code.launch(world, nothing, stream=stream), Result.NOT_SUPPORTED, "I")
        expect.equal("the capture goes on", steps.status(stream), ACTIVE, "I")
        expect("end", steps.end(stream)[0], Result.SUCCESS, "I")
    expect.equal("nodes", nodes_of(steps, graph), [], "I")


def test_the_parameters_are_copied_when_the_node_is_made(steps: GraphSteps, expect: Expectations) -> None:
    world, graph = steps.world, steps.graph()
    memory, number = world.new_allocation(64), c_int(5)
    with code.loaded(world) as module:
        fill = code.function(world, module, "fill")
        parameters = code.Parameters(c_uint64(memory), number, c_uint64(9))
        node = steps.must(add_kernel(steps, graph, params_of(fill, parameters, (2, 3, 4))))
        number.value = 6
        found = told(steps, node)
        expect.equal("type", kind(steps, node), KERNEL, "D")
        expect.equal("function", (found.func, found.kern), (fill, None), "I")
        expect.equal("shape", ([*found.grid], [*found.block], found.shared), ([2, 3, 4], [32, 1, 1], 0), "D")
        expect.equal("parameters", numbers(found), (memory, 5, 9), "D")
        clone = c_void_p()
        world.must("cuGraphClone", world.driver.cuGraphClone(byref(clone), graph))
        later = code.Parameters(c_uint64(memory), c_int(7), c_uint64(8))
        answer = world.driver.cuGraphKernelNodeSetParams(node, byref(params_of(fill, later)))
        expect("a change", answer, Result.SUCCESS, "D")
        expect.equal("changed", numbers(told(steps, node)), (memory, 7, 8), "D")
        expect.equal("the clone", numbers(told(steps, nodes_of(steps, clone.value or 0)[0])), (memory, 5, 9), "D")
        world.must("cuGraphDestroy", world.driver.cuGraphDestroy(clone))


def test_a_buffer_of_parameters_is_told_as_a_buffer(steps: GraphSteps, expect: Expectations) -> None:
    world, graph = steps.world, steps.graph()
    memory, size = world.new_allocation(64), c_size_t(24)
    buffer = create_string_buffer(memory.to_bytes(8, "little") + bytes([3]), 24)
    extra = (c_void_p * 5)(1, addressof(buffer), 2, addressof(size), 0)
    with code.loaded(world) as module:
        params = params_of(code.function(world, module, "fill"))
        params.extra = addressof(extra)
        node = steps.must(add_kernel(steps, graph, params))
        found = told(steps, node)
        expect.equal("pointers", found.kernelParams, None, "D")
        options = (c_void_p * 5).from_address(found.extra)
        copied = bytes((c_int * 3).from_address(options[1] or 0))
        expect.equal("marks", (options[0], options[2], options[4]), (1, 2, None), "D")
        expect.equal("bytes", copied, memory.to_bytes(8, "little") + bytes([3, 0, 0, 0]), "D")
        expect.equal("size", c_size_t.from_address(options[3] or 0).value, 24, "I")


def test_a_node_is_checked_like_a_launch(steps: GraphSteps, expect: Expectations) -> None:
    world, graph = steps.world, steps.graph()
    with code.loaded(world) as module:
        nothing = code.function(world, module, "nothing")
        expect("no function", add_kernel(steps, graph, params_of(0))[0], Result.INVALID_VALUE, "I")
        bad = add_kernel(steps, graph, params_of(nothing, grid=(0, 1, 1)))
        expect("no blocks", bad[0], Result.INVALID_VALUE, "D")
        if world.driver.is_emulated:  # a real driver may crash
            lacking = add_kernel(steps, graph, params_of(code.function(world, module, "fill")))
            expect("no parameters", lacking[0], Result.INVALID_VALUE, "I")
        node = steps.must(add_kernel(steps, graph, params_of(nothing)))
        worse = params_of(nothing, grid=(1, 0, 1))
        expect("a change", world.driver.cuGraphKernelNodeSetParams(node, byref(worse)), Result.INVALID_VALUE, "D")
        expect.equal("unchanged", [*told(steps, node).grid], [1, 1, 1], "D")
        other = steps.empty(graph)
        expect("a node of another kind", world.driver.cuGraphKernelNodeGetParams(other, byref(worse)), 1, "D")
    expect.equal("nodes", len(nodes_of(steps, graph)), 2, "D")


@needs_setting
def test_each_launch_of_the_graph_counts_its_kernels(steps: GraphSteps, expect: Expectations) -> None:
    world, graph, stream = steps.world, steps.graph(), steps.world.new_stream()
    before = skipped(world, "nothing")
    with code.loaded(world) as module:
        nothing = code.function(world, module, "nothing")
        first = steps.must(add_kernel(steps, graph, params_of(nothing)))
        steps.must(add_kernel(steps, graph, params_of(nothing), [first]))
        executable = steps.executable(graph)
        expect.equal("nothing ran", skipped(world, "nothing"), before, "I")
        with world.blocked(stream) as gate:
            expect("launch", world.driver.cuGraphLaunch(executable, stream), Result.SUCCESS, "D")
            expect("query", world.driver.cuStreamQuery(stream), Result.NOT_READY, "D")
            gate.set()
            world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
        expect.equal("two kernels", skipped(world, "nothing") - before, 2, "I")
        expect("off", world.driver.cuGraphNodeSetEnabled(executable, first, 0), Result.SUCCESS, "D")
        world.must("launch", world.driver.cuGraphLaunch(executable, stream))
        expect.equal("one more", skipped(world, "nothing") - before, 3, "I")
        world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))


@needs_setting
def test_a_launch_after_the_module_is_gone_is_a_violation(steps: GraphSteps, expect: Expectations) -> None:
    world, graph, stream = steps.world, steps.graph(), steps.world.new_stream()
    with code.loaded(world) as module:
        steps.must(add_kernel(steps, graph, params_of(code.function(world, module, "nothing"))))
    before = skipped(world, "nothing")
    answer = world.driver.cuGraphLaunch(steps.executable(graph), stream)
    expect.violation("launch", answer, "I", Result.INVALID_HANDLE)
    expect.equal("launches", skipped(world, "nothing"), before, "I")


def test_a_launch_in_a_capture_becomes_a_kernel_node(steps: GraphSteps, expect: Expectations) -> None:
    world, driver, stream = steps.world, steps.driver, steps.world.new_stream()
    memory, number = world.new_allocation(64), c_int(4)
    with code.loaded(world) as module:
        fill, nothing = (code.function(world, module, name) for name in ("fill", "nothing"))
        parameters = code.Parameters(c_uint64(memory), number, c_uint64(2))
        before = skipped(world, "fill") if driver.is_emulated else 0
        steps.begin(stream)
        expect("fill", driver.cuMemsetD8Async(memory, 1, 64, stream), Result.SUCCESS, "D")
        expect("launch", code.launch(world, fill, parameters, stream=stream), Result.SUCCESS, "D")
        answer = driver.cuLaunchCooperativeKernel(nothing, 1, 1, 1, 32, 1, 1, 0, stream, None)
        expect("cooperative", answer, Result.SUCCESS, "D")
        if driver.is_emulated:
            expect("a bad shape", code.launch(world, nothing, grid=(0, 1, 1), stream=stream), 1, "I")
            expect.equal("the capture goes on", steps.status(stream), ACTIVE, "I")
        number.value = 5
        ended, graph = steps.end(stream)
        expect("end", ended, Result.SUCCESS, "D")
        nodes = nodes_of(steps, graph)
        expect.equal("kinds", [kind(steps, node) for node in nodes], [MEMSET, KERNEL, KERNEL], "D")
        expect.equal("parameters", numbers(told(steps, nodes[1])), (memory, 4, 2), "D")
        expect.equal("attributes", [attribute(steps, node, COOPERATIVE) for node in nodes[1:]], [0, 1], "D")
        expect("launch", driver.cuGraphLaunch(steps.executable(graph), stream), Result.SUCCESS, "D")
        expect("wait", driver.cuStreamSynchronize(stream), Result.SUCCESS, "D")
        if driver.is_emulated:
            expect.equal("skipped", skipped(world, "fill") - before, 1, "I")


def test_a_captured_kernel_of_a_library_is_told_as_a_kernel(steps: GraphSteps, expect: Expectations) -> None:
    world, driver, stream, kernel = steps.world, steps.driver, steps.world.new_stream(), c_void_p()
    attributes = (code.LaunchAttribute * 2)()
    attributes[0].id, attributes[0].value[0] = COOPERATIVE, 1
    attributes[1].id, attributes[1].value[0] = PRIORITY, -1
    with code.library(world) as made:
        world.must("kernel", driver.cuLibraryGetKernel(byref(kernel), made, b"nothing"))
        config = code.LaunchConfig((1, 1, 1), (32, 1, 1), 0, stream, addressof(attributes), 2)
        steps.begin(stream)
        expect("launch", driver.cuLaunchKernelEx(byref(config), kernel, None, None), Result.SUCCESS, "D")
        ended, graph = steps.end(stream)
        expect("end", ended, Result.SUCCESS, "D")
        node = nodes_of(steps, graph)[0]
        expect.equal("kernel", told(steps, node).kern, kernel.value, "I")
        found = [attribute(steps, node, which) for which in (COOPERATIVE, PRIORITY)]
        expect.equal("attributes", found, [1, -1], "D")
        other = KernelParams(kern=kernel, grid=(3, 1, 1), block=(1, 1, 1))
        expect("a node with kern", add_kernel(steps, graph, other, [node])[0], Result.SUCCESS, "D")
        expect("launch", driver.cuGraphLaunch(steps.executable(graph), stream), Result.SUCCESS, "D")
        expect("wait", driver.cuStreamSynchronize(stream), Result.SUCCESS, "D")


def test_the_generic_functions_know_kernel_nodes(steps: GraphSteps, expect: Expectations) -> None:
    world, driver, graph, node = steps.world, steps.driver, steps.graph(), c_void_p()
    with code.loaded(world) as module:
        params = NodeParams(type=KERNEL, kernel=params_of(code.function(world, module, "nothing")))
        expect("add", driver.cuGraphAddNode(byref(node), graph, None, 0, byref(params)), Result.SUCCESS, "D")
        params.kernel.grid[0] = 7
        expect("set", driver.cuGraphNodeSetParams(node, byref(params)), Result.SUCCESS, "D")
        expect.equal("grid", [*told(steps, node.value or 0).grid], [7, 1, 1], "D")
        executable = steps.executable(graph)
        expect("executable", driver.cuGraphExecNodeSetParams(executable, node, byref(params)), Result.SUCCESS, "D")
        params.kernel.grid[0] = 0
        expect("no blocks", driver.cuGraphExecNodeSetParams(executable, node, byref(params)), 1, "D")


@pytest.mark.emulator_only("older drivers than 13.2 do not have the function")
def test_the_parameters_of_every_node_can_be_asked_for(steps: GraphSteps, expect: Expectations) -> None:
    world, driver, graph, inner = steps.world, steps.driver, steps.graph(), steps.graph()
    memory, stream, child, held = world.new_allocation(64), world.new_stream(), c_void_p(), c_void_p()
    fill = steps.must(steps.add_fill(inner, row(memory, 5, 16)))
    world.must("child", driver.cuGraphAddChildGraphNode(byref(child), graph, None, 0, inner))
    world.must("the child's graph", driver.cuGraphChildGraphNodeGetGraph(child, byref(held)))
    _, allocation, address = steps.add_alloc(graph, 4096)

    def words(node: int) -> list[int]:
        params = NodeParams()
        expect("cuGraphNodeGetParams", driver.cuGraphNodeGetParams(node, byref(params)), Result.SUCCESS, "D")
        expect.equal("type", params.type, kind(steps, node), "D")
        return [*(c_uint64 * 29).from_buffer(params, NodeParams.kernel.offset)]

    with code.loaded(world) as module:
        nothing = code.function(world, module, "nothing")
        node = steps.must(add_kernel(steps, graph, params_of(nothing, grid=(2, 1, 1))))
        expect.equal("kernel", words(node)[:2], [nothing, 2 | 1 << 32], "D")
        expect.equal("fill", words(fill)[:3], [memory, 0, 5 | 1 << 32], "D")
        expect.equal("child", words(child.value or 0)[:2], [held.value, 0], "D")
        expect.equal("allocation", words(allocation)[13:15], [4096, address], "D")
    steps.begin(stream)
    world.must("declared work", driver.memlakeEmulatorLaunch(stream, b"work", None, 0))
    declared = nodes_of(steps, steps.end(stream)[1])[0]
    expect("declared work", driver.cuGraphNodeGetParams(declared, byref(NodeParams())), Result.NOT_SUPPORTED, "I")
    expect("its kernel", driver.cuGraphKernelNodeGetParams(declared, byref(KernelParams())), 801, "I")


def test_attributes_are_set_copied_and_kept(steps: GraphSteps, expect: Expectations) -> None:
    world, driver, graph = steps.world, steps.driver, steps.graph()
    with code.loaded(world) as module:
        nothing = code.function(world, module, "nothing")
        one, other = (steps.must(add_kernel(steps, graph, params_of(nothing))) for _ in range(2))
        value = (c_int * 16)(1)
        for which in (COOPERATIVE, PRIORITY):
            expect("set", driver.cuGraphKernelNodeSetAttribute(one, which, byref(value)), Result.SUCCESS, "D")
        answer = driver.cuGraphKernelNodeSetAttribute(one, STREAM_SERIALIZATION, byref(value))
        expect("not of nodes", answer, Result.INVALID_VALUE, "I")
        expect("copy", driver.cuGraphKernelNodeCopyAttributes(other, one), Result.SUCCESS, "D")
        world.must("set", driver.cuGraphKernelNodeSetParams(other, byref(params_of(nothing, grid=(2, 1, 1)))))
        expect.equal("kept", [attribute(steps, other, which) for which in (COOPERATIVE, PRIORITY)], [1, 1], "D")
        large = params_of(nothing, grid=(1 << 20, 1, 1))
        answer = driver.cuGraphKernelNodeSetParams(other, byref(large))
        expect("too large", answer, Result.COOPERATIVE_LAUNCH_TOO_LARGE, "I")


def test_an_update_changes_kernels_but_not_their_cooperation(steps: GraphSteps, expect: Expectations) -> None:
    world, driver, info = steps.world, steps.driver, UpdateInfo()
    first, same, cooperative = (steps.graph() for _ in range(3))
    with code.loaded(world) as module:
        nothing, fill = (code.function(world, module, name) for name in ("nothing", "fill"))
        parameters = code.Parameters(c_uint64(world.new_allocation(64)), c_int(1), c_uint64(0))
        node = steps.must(add_kernel(steps, first, params_of(nothing)))
        steps.must(add_kernel(steps, same, params_of(fill, parameters)))
        changed = steps.must(add_kernel(steps, cooperative, params_of(nothing)))
        one = (c_int * 16)(1)
        world.must("attribute", driver.cuGraphKernelNodeSetAttribute(changed, COOPERATIVE, byref(one)))
        executable = steps.executable(first)
        expect("another kernel", driver.cuGraphExecUpdate(executable, same, byref(info)), Result.SUCCESS, "D")
        answer = driver.cuGraphExecUpdate(executable, cooperative, byref(info))
        expect("cooperative", answer, Result.GRAPH_EXEC_UPDATE_FAILURE, "D")
        expect.equal("the reason", (info.result, info.errorNode), (ATTRIBUTES_CHANGED, changed), "I")
        params = params_of(nothing, grid=(5, 1, 1))
        expect("one node", driver.cuGraphExecKernelNodeSetParams(executable, node, byref(params)), 0, "D")
        expect.equal("the graph is unchanged", [*told(steps, node).grid], [1, 1, 1], "D")


@pytest.mark.world(devices=2, kernels="skip")
def test_the_context_of_a_kernel_in_an_executable_graph_cannot_change(steps: GraphSteps, expect: Expectations) -> None:
    world, driver, kernel, info = steps.world, steps.driver, c_void_p(), UpdateInfo()
    first, second = steps.graph(), steps.graph()
    with code.library(world) as made:
        world.must("kernel", driver.cuLibraryGetKernel(byref(kernel), made, b"nothing"))
        here, there = (
            KernelParams(kern=kernel, grid=(1, 1, 1), block=(1, 1, 1), ctx=world.contexts[device])
            for device in world.devices
        )
        node = steps.must(add_kernel(steps, first, here))
        other = steps.must(add_kernel(steps, second, there))
        executable = steps.executable(first)
        answer = driver.cuGraphExecKernelNodeSetParams(executable, node, byref(there))
        expect("one node", answer, Result.INVALID_VALUE, "D")
        answer = driver.cuGraphExecUpdate(executable, second, byref(info))
        expect("the graph", answer, Result.GRAPH_EXEC_UPDATE_FAILURE, "D")
        expect.equal("the reason", (info.result, info.errorNode), (FUNCTION_CHANGED, other), "I")
