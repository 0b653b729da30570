"""NVIDIA's nvidia-ml-py on any libnvidia-ml.so.1: the memory of a process that allocates through libcuda.so.1."""

from __future__ import annotations

import ctypes
import os

import pynvml

cuda = ctypes.CDLL("libcuda.so.1")


def call(function: str, *arguments: object) -> None:
    if (code := getattr(cuda, function)(*arguments)) != 0:
        raise RuntimeError(f"{function} answered {code}")


pynvml.nvmlInit()
count = pynvml.nvmlDeviceGetCount()
handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
capability = ".".join(map(str, pynvml.nvmlDeviceGetCudaComputeCapability(handles[0])))
print(f"{count} devices, {pynvml.nvmlDeviceGetName(handles[0])}, compute capability {capability}")

context, address = ctypes.c_void_p(), ctypes.c_uint64()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 1)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(16 << 20))
for index, handle in enumerate(handles):
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    processes = {process.pid: process.usedGpuMemory for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    assert processes in ({}, {os.getpid(): memory.used})
    assert memory.used + memory.free == memory.total
    assert pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used == memory.used
    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(pynvml.nvmlDeviceGetUUID(handle))) == index
    bus_id = pynvml.nvmlDeviceGetPciInfo(handle).busId
    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByPciBusId(bus_id)) == index
    users = "this process" if processes else "no process"
    print(f"device {index}: {memory.used} of {memory.total} bytes used by {users}")
call("cuMemFree_v2", address)
assert pynvml.nvmlDeviceGetMemoryInfo(handles[1]).used == 0
try:
    pynvml.nvmlDeviceGetPowerUsage(handles[0])
except pynvml.NVMLError as error:
    print(f"power: {error}")
pynvml.nvmlShutdown()
