"""Graphs and captures of a driver: their structs, and the steps of the cases about them."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import TYPE_CHECKING

from helpers.abi_types import HostFunction, MemAccessDesc, MemLocation, MemPoolProps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from helpers.abi_world import World

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
"""CUstreamCaptureMode."""
NONE, ACTIVE, INVALIDATED = 0, 1, 2
"""CUstreamCaptureStatus."""
AUTO_FREE_ON_LAUNCH, DEVICE_LAUNCH = 1, 4
EXTERNAL = 1
USED, USED_HIGH, RESERVED, RESERVED_HIGH = 0, 1, 2, 3
"""CUgraphMem_attribute."""
KERNEL, MEMCPY, MEMSET, HOST, GRAPH, EMPTY, WAIT_EVENT, EVENT_RECORD = range(8)
MEM_ALLOC, MEM_FREE, CONDITIONAL = 10, 11, 13
"""CUgraphNodeType."""


class Memcpy3D(ctypes.Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = (
        *(
            (side + name, kind)
            for side in ("src", "dst")
            for name, kind in (
                ("XInBytes", c_size_t),
                ("Y", c_size_t),
                ("Z", c_size_t),
                ("LOD", c_size_t),
                ("MemoryType", c_int),
                ("Host", c_void_p),
                ("Device", c_uint64),
                ("Array", c_void_p),
                ("reserved", c_void_p),
                ("Pitch", c_size_t),
                ("Height", c_size_t),
            )
        ),
        ("WidthInBytes", c_size_t),
        ("Height", c_size_t),
        ("Depth", c_size_t),
    )


class MemsetParams(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS."""

    _fields_ = (
        ("dst", c_uint64),
        ("pitch", c_size_t),
        ("value", c_uint),
        ("elementSize", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
    )


class HostParams(ctypes.Structure):
    """CUDA_HOST_NODE_PARAMS."""

    _fields_ = (("fn", HostFunction), ("userData", c_void_p))


class AllocParams(ctypes.Structure):
    """CUDA_MEM_ALLOC_NODE_PARAMS."""

    _fields_ = (
        ("poolProps", MemPoolProps),
        ("accessDescs", ctypes.POINTER(MemAccessDesc)),
        ("accessDescCount", c_size_t),
        ("bytesize", c_size_t),
        ("dptr", c_uint64),
    )


class UpdateInfo(ctypes.Structure):
    """CUgraphExecUpdateResultInfo."""

    _fields_ = (("result", c_int), ("errorNode", c_void_p), ("errorFromNode", c_void_p))


def device_copy(destination: int, source: int, size: int) -> Memcpy3D:
    """A copy of one row between two addresses of a device."""
    copy = Memcpy3D(srcMemoryType=2, srcDevice=source, dstMemoryType=2, dstDevice=destination)
    copy.WidthInBytes, copy.Height, copy.Depth = size, 1, 1
    return copy


def row(address: int, value: int, size: int) -> MemsetParams:
    """A fill of one row of bytes."""
    return MemsetParams(dst=address, pitch=0, value=value, elementSize=1, width=size, height=1)


class GraphSteps:
    """The steps of cases about graphs in a world. What it makes ends with `close`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.driver = world.driver
        self.graphs: list[int] = []
        self.execs: list[int] = []

    def zero(self, address: int, size: int) -> None:
        """Clears memory, and waits: the call returns before the fill is done, and other streams do not wait for it."""
        self.world.must("cuMemsetD8", self.driver.cuMemsetD8(address, 0, size))
        self.world.must("cuStreamSynchronize", self.driver.cuStreamSynchronize(None))

    def graph(self) -> int:
        """A new graph."""
        graph = c_void_p()
        self.world.must("cuGraphCreate", self.driver.cuGraphCreate(byref(graph), 0))
        self.graphs.append(graph.value or 0)
        return self.graphs[-1]

    def nodes(self, *handles: int) -> tuple[object, int]:
        """An array of nodes for a call, and its length."""
        return (c_void_p * max(len(handles), 1))(*handles), len(handles)

    def empty(self, graph: int, *before: int) -> int:
        """Adds an empty node."""
        node = c_void_p()
        self.world.must(
            "cuGraphAddEmptyNode", self.driver.cuGraphAddEmptyNode(byref(node), graph, *self.nodes(*before))
        )
        return node.value or 0

    def add_fill(self, graph: int, params: MemsetParams, before: Sequence[int] = ()) -> tuple[int, int]:
        """cuGraphAddMemsetNode: the answer and the node."""
        node = c_void_p()
        context = self.world.contexts[self.world.device]
        code = self.driver.cuGraphAddMemsetNode(byref(node), graph, *self.nodes(*before), byref(params), context)
        return code, node.value or 0

    def add_copy(self, graph: int, params: Memcpy3D, before: Sequence[int] = ()) -> tuple[int, int]:
        """cuGraphAddMemcpyNode: the answer and the node."""
        node = c_void_p()
        context = self.world.contexts[self.world.device]
        code = self.driver.cuGraphAddMemcpyNode(byref(node), graph, *self.nodes(*before), byref(params), context)
        return code, node.value or 0

    def add_alloc(self, graph: int, size: int, before: Sequence[int] = ()) -> tuple[int, int, int]:
        """cuGraphAddMemAllocNode: the answer, the node and the address."""
        node, params = c_void_p(), AllocParams()
        params.poolProps.alloc_type = 1
        params.poolProps.location = MemLocation(1, self.world.device)
        params.bytesize = size
        code = self.driver.cuGraphAddMemAllocNode(byref(node), graph, *self.nodes(*before), byref(params))
        return code, node.value or 0, params.dptr

    def add_free(self, graph: int, address: int, before: Sequence[int] = ()) -> tuple[int, int]:
        """cuGraphAddMemFreeNode: the answer and the node."""
        node = c_void_p()
        return self.driver.cuGraphAddMemFreeNode(byref(node), graph, *self.nodes(*before), address), node.value or 0

    def must(self, answer: tuple[int, ...]) -> int:
        """The node of a step that is not the point of the case."""
        self.world.must("adding a node", answer[0])
        return answer[1]

    def instantiate(self, graph: int, flags: int = 0) -> tuple[int, int]:
        """cuGraphInstantiateWithFlags: the answer and the executable graph."""
        executable = c_void_p()
        code = self.driver.cuGraphInstantiateWithFlags(byref(executable), graph, flags)
        if code == 0:
            self.execs.append(executable.value or 0)
        return code, executable.value or 0

    def executable(self, graph: int, flags: int = 0) -> int:
        """An executable graph, for a step that is not the point of the case."""
        code, executable = self.instantiate(graph, flags)
        self.world.must("cuGraphInstantiateWithFlags", code)
        return executable

    def destroy_exec(self, executable: int) -> int:
        """cuGraphExecDestroy."""
        self.execs.remove(executable)
        return self.driver.cuGraphExecDestroy(executable)

    def destroy(self, graph: int) -> int:
        """cuGraphDestroy."""
        self.graphs.remove(graph)
        return self.driver.cuGraphDestroy(graph)

    def count(self, function: str, handle: int) -> int:
        """How many nodes a function lists."""
        count = c_size_t(99)
        self.world.must(function, getattr(self.driver, function)(handle, None, byref(count)))
        return count.value

    def memory(self, attribute: int) -> int:
        """cuDeviceGetGraphMemAttribute."""
        value = c_uint64(0)
        code = self.driver.cuDeviceGetGraphMemAttribute(self.world.device, attribute, byref(value))
        self.world.must("cuDeviceGetGraphMemAttribute", code)
        return value.value

    def begin(self, stream: int, mode: int = RELAXED) -> None:
        """Begins a capture, for a step that is not the point of the case."""
        self.world.must("cuStreamBeginCapture", self.driver.cuStreamBeginCapture(stream, mode))

    def end(self, stream: int) -> tuple[int, int]:
        """cuStreamEndCapture: the answer and the graph."""
        graph = c_void_p()
        code = self.driver.cuStreamEndCapture(stream, byref(graph))
        if graph.value:
            self.graphs.append(graph.value)
        return code, graph.value or 0

    def status(self, stream: int) -> int:
        """cuStreamIsCapturing."""
        status = c_int(-1)
        self.world.must("cuStreamIsCapturing", self.driver.cuStreamIsCapturing(stream, byref(status)))
        return status.value

    def close(self) -> None:
        """Destroys what is left, and gives the memory of graphs back."""
        for executable in list(self.execs):
            self.world.must("cuGraphExecDestroy", self.destroy_exec(executable))
        for graph in list(self.graphs):
            self.world.must("cuGraphDestroy", self.destroy(graph))
        self.world.must("cuDeviceGraphMemTrim", self.driver.cuDeviceGraphMemTrim(self.world.device))
