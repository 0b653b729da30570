"""NVIDIA's cuda-bindings on any libcuda.so.1: stitch two devices' memory by hand, copy through it, free it."""

from __future__ import annotations

from typing import Any

import numpy as np
from cuda.bindings import driver as cu


def call(answer: tuple[Any, ...]) -> Any:
    code, *values = answer
    if code != cu.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(code))
    return values[0] if len(values) == 1 else tuple(values)


def location(device: int) -> cu.CUmemLocation:
    where = cu.CUmemLocation()
    where.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    where.id = device
    return where


def properties(device: int) -> cu.CUmemAllocationProp:
    prop = cu.CUmemAllocationProp()
    prop.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location = location(device)
    return prop


def access(device: int) -> cu.CUmemAccessDesc:
    right = cu.CUmemAccessDesc()
    right.location = location(device)
    right.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    return right


def main() -> None:
    call(cu.cuInit(0))
    devices = [call(cu.cuDeviceGet(i)) for i in range(call(cu.cuDeviceGetCount()))]
    contexts = [call(cu.cuDevicePrimaryCtxRetain(device)) for device in devices]
    call(cu.cuCtxSetCurrent(contexts[0]))
    free_before, total = call(cu.cuMemGetInfo())
    name = call(cu.cuDeviceGetName(64, devices[0])).split(b"\0")[0].decode()
    print(f"{len(devices)} devices, {name}, {total} bytes")

    option = cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    granule = call(cu.cuMemGetAllocationGranularity(properties(0), option))
    whole = granule * len(devices)
    base = call(cu.cuMemAddressReserve(whole, 0, 0, 0))
    chunks = [call(cu.cuMemCreate(granule, properties(i), 0)) for i in range(len(devices))]
    for i, chunk in enumerate(chunks):
        call(cu.cuMemMap(int(base) + i * granule, granule, 0, chunk, 0))
    call(cu.cuMemSetAccess(base, whole, [access(i) for i in range(len(devices))], len(devices)))

    # A stamp over every seam, copied in on a stream and out again.
    stream = call(cu.cuStreamCreate(0))
    sent = np.arange(whole, dtype=np.uint32).astype(np.uint8)
    received = np.zeros_like(sent)
    call(cu.cuMemcpyHtoDAsync(base, sent.ctypes.data, whole, stream))
    event = call(cu.cuEventCreate(0))
    call(cu.cuEventRecord(event, stream))
    call(cu.cuEventSynchronize(event))
    call(cu.cuMemcpyDtoH(received.ctypes.data, base, whole))
    assert np.array_equal(sent, received)
    call(cu.cuMemsetD8(base, 7, whole))
    call(cu.cuCtxSynchronize())
    call(cu.cuMemcpyDtoH(received.ctypes.data, base, whole))
    assert (received == 7).all()

    assert cu.cuMemMap(base, granule, 0, chunks[0], 0)[0] == cu.CUresult.CUDA_ERROR_INVALID_VALUE  # mapped already
    call(cu.cuEventDestroy(event))
    call(cu.cuStreamDestroy(stream))
    call(cu.cuMemUnmap(base, whole))
    for chunk in chunks:
        call(cu.cuMemRelease(chunk))
    call(cu.cuMemAddressFree(base, whole))
    plain = call(cu.cuMemAlloc(1 << 20))
    call(cu.cuMemFree(plain))
    assert call(cu.cuMemGetInfo()) == (free_before, total)
    print("everything was given back")


main()
