"""NVIDIA's cuda.core and cuda-bindings on whatever libcuda.so.1 there is: a graph is captured from a stream, a graph
allocates memory, and a graph is built by hand, updated and launched."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, DeviceMemoryResource, GraphMemoryResource, LegacyPinnedMemoryResource, Stream

SIZE = 4096


def must(answer: tuple[Any, ...]) -> Any:
    """What a driver function returned besides its code."""
    assert answer[0] == driver.CUresult.CUDA_SUCCESS, answer
    return answer[1] if len(answer) == 2 else answer[1:]


def captured(device: Device, stream: Stream) -> None:
    """Copies and fills become nodes, which run at each launch."""
    memory = DeviceMemoryResource(device).allocate(SIZE, stream=stream)
    host = LegacyPinnedMemoryResource().allocate(SIZE)
    shown = np.from_dlpack(host).view(np.uint8)
    shown[:] = 0
    stream.sync()
    builder = device.create_graph_builder().begin_building()
    memory.fill(7, stream=builder)
    host.copy_from(memory, stream=builder)
    graph = builder.end_building().complete()
    assert not shown.any(), "a capture has run its work"
    graph.launch(stream)
    stream.sync()
    assert np.all(shown == 7)
    shown[:] = 0
    graph.launch(stream)
    stream.sync()
    assert np.all(shown == 7)
    graph.close()
    builder.close()
    memory.close(stream)
    host.close()
    stream.sync()


def with_memory(device: Device, stream: Stream) -> None:
    """A graph that allocates memory, uses it and frees it."""
    resource = GraphMemoryResource(device)
    output = DeviceMemoryResource(device).allocate(SIZE, stream=stream)
    host = LegacyPinnedMemoryResource().allocate(SIZE)
    stream.sync()
    builder = device.create_graph_builder().begin_building()
    scratch = resource.allocate(SIZE, stream=builder)
    scratch.fill(9, stream=builder)
    output.copy_from(scratch, stream=builder)
    scratch.close()
    graph = builder.end_building().complete()
    assert resource.attributes.reserved_mem_current == 0
    graph.launch(stream)
    host.copy_from(output, stream=stream)
    stream.sync()
    assert np.all(np.from_dlpack(host).view(np.uint8) == 9)
    assert resource.attributes.reserved_mem_current > 0
    graph.close()
    builder.close()
    resource.trim()
    assert resource.attributes.reserved_mem_current == 0
    output.close(stream)
    host.close()
    stream.sync()


def by_hand(device: Device, stream: Stream) -> None:
    """Two fills in a row, and an update that changes the second."""
    memory = int(must(driver.cuMemAlloc(SIZE)))
    context = must(driver.cuCtxGetCurrent())

    def graph_of(value: int) -> Any:
        graph, before = must(driver.cuGraphCreate(0)), []
        for offset, byte in ((0, 1), (2, value)):
            params = driver.CUDA_MEMSET_NODE_PARAMS()
            params.dst, params.value, params.elementSize = memory + offset, byte, 1
            params.width, params.height = 2, 1
            before = [must(driver.cuGraphAddMemsetNode(graph, before, len(before), params, context))]
        return graph

    first, second = graph_of(2), graph_of(3)
    executable = must(driver.cuGraphInstantiate(first, 0))
    for wanted in (bytes([1, 1, 2, 2]), bytes([1, 1, 3, 3])):
        must(driver.cuGraphLaunch(executable, stream.handle))
        stream.sync()
        found = bytearray(4)
        must(driver.cuMemcpyDtoH(found, memory, 4))
        assert found == wanted, found
        must(driver.cuGraphExecUpdate(executable, second))
    must(driver.cuGraphExecDestroy(executable))
    must(driver.cuGraphDestroy(first))
    must(driver.cuGraphDestroy(second))
    must(driver.cuMemFree(memory))


def main() -> None:
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    captured(device, stream)
    print("a captured graph")
    with_memory(device, stream)
    print("memory of a graph")
    by_hand(device, stream)
    print("a graph of cuda-bindings")
    gc.collect()


if __name__ == "__main__":
    main()
