"""NVIDIA's cuda.core on whatever libcuda.so.1 there is: managed memory of its pools and of cuMemAllocManaged is written
by the CPU, prefetched, advised, copied and freed."""

from __future__ import annotations

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, Host, ManagedBuffer, ManagedMemoryResource, ManagedMemoryResourceOptions
from cuda.core.utils import discard_batch, prefetch_batch

SIZE = 5 << 20


def free_memory() -> int:
    code, free, _ = driver.cuMemGetInfo()
    assert code == driver.CUresult.CUDA_SUCCESS, code
    return int(free)


def main() -> None:
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    before = free_memory()

    resource = ManagedMemoryResource()
    buffer = resource.allocate(SIZE, stream=stream)
    assert isinstance(buffer, ManagedBuffer)
    bytes_of = np.from_dlpack(buffer).view(np.uint8)
    bytes_of[:] = 3
    assert free_memory() == before, "memory that only the CPU used lies on the device"
    buffer.prefetch(device, stream=stream)
    assert before - SIZE - (1 << 16) <= free_memory() <= before - SIZE
    buffer.fill(4, stream=stream)
    stream.sync()
    assert np.all(bytes_of == 4)
    buffer.prefetch(Host(), stream=stream)
    stream.sync()
    assert free_memory() == before
    print("the current managed pool")

    other = ManagedMemoryResource(ManagedMemoryResourceOptions(preferred_location=0)).allocate(SIZE, stream=stream)
    other.copy_from(buffer, stream=stream)
    stream.sync()
    assert np.all(np.from_dlpack(other).view(np.uint8) == 4)
    prefetch_batch(stream, [buffer, other], [Host(), device])
    discard_batch(stream, [buffer, other])
    stream.sync()
    assert free_memory() == before
    print("a pool that prefers a device")

    code, address = driver.cuMemAllocManaged(SIZE, driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value)
    assert code == driver.CUresult.CUDA_SUCCESS, code
    plain = ManagedBuffer.from_handle(address, SIZE)
    assert not plain.read_mostly
    plain.read_mostly = True
    assert plain.read_mostly
    plain.preferred_location = Host()
    assert plain.preferred_location == Host()
    plain.accessed_by.add(device)
    assert device in plain.accessed_by
    (code,) = driver.cuMemFree(address)
    assert code == driver.CUresult.CUDA_SUCCESS, code
    print("cuMemAllocManaged")

    del bytes_of
    for used in (buffer, other):
        used.close(stream)
    stream.sync()
    assert free_memory() == before


main()
