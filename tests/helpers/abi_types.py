"""The CUDA driver's C ABI as ctypes sees it: numbers and struct mirrors, as in section C of the driver contract.

Written by hand and apart from the C++ header of the core, so that a slip in one of the two shows as a failing test.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_uint8, c_uint16, c_void_p
from enum import IntEnum


class Result(IntEnum):
    """The CUresult numbers that the cases name."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    NOT_INITIALIZED = 3
    DEINITIALIZED = 4
    STUB_LIBRARY = 34
    NO_DEVICE = 100
    INVALID_DEVICE = 101
    INVALID_IMAGE = 200
    INVALID_CONTEXT = 201
    NO_BINARY_FOR_GPU = 209
    PEER_ACCESS_UNSUPPORTED = 217
    INVALID_PTX = 218
    UNSUPPORTED_PTX_VERSION = 222
    FILE_NOT_FOUND = 301
    OPERATING_SYSTEM = 304
    INVALID_HANDLE = 400
    ILLEGAL_STATE = 401
    NOT_FOUND = 500
    NOT_READY = 600
    ILLEGAL_ADDRESS = 700
    LAUNCH_OUT_OF_RESOURCES = 701
    PEER_ACCESS_ALREADY_ENABLED = 704
    PEER_ACCESS_NOT_ENABLED = 705
    CONTEXT_IS_DESTROYED = 709
    HOST_MEMORY_ALREADY_REGISTERED = 712
    LAUNCH_FAILED = 719
    COOPERATIVE_LAUNCH_TOO_LARGE = 720
    NOT_PERMITTED = 800
    NOT_SUPPORTED = 801
    SYSTEM_NOT_READY = 802
    SYSTEM_DRIVER_MISMATCH = 803
    STREAM_CAPTURE_UNSUPPORTED = 900
    STREAM_CAPTURE_INVALIDATED = 901
    STREAM_CAPTURE_MERGE = 902
    STREAM_CAPTURE_UNMATCHED = 903
    STREAM_CAPTURE_UNJOINED = 904
    STREAM_CAPTURE_ISOLATION = 905
    STREAM_CAPTURE_IMPLICIT = 906
    CAPTURED_EVENT = 907
    STREAM_CAPTURE_WRONG_THREAD = 908
    GRAPH_EXEC_UPDATE_FAILURE = 910
    UNKNOWN = 999


VIOLATION = Result.LAUNCH_FAILED
"""What a call answers that breaks the contract, where the contract names no other code."""

ALLOCATION_PINNED = 1
ALLOCATION_MANAGED = 2

LOCATION_NONE = 0
LOCATION_DEVICE = 1
LOCATION_HOST = 2
LOCATION_HOST_NUMA = 3
LOCATION_HOST_NUMA_CURRENT = 4

HANDLE_NONE = 0
HANDLE_POSIX_FD = 1
HANDLE_WIN32 = 2

ACCESS_NONE = 0
ACCESS_READ = 1
ACCESS_READ_WRITE = 3

POOL_FOLLOW_EVENTS = 1
POOL_OPPORTUNISTIC = 2
POOL_INTERNAL = 3
POOL_RELEASE_THRESHOLD = 4
POOL_HELD = 5
POOL_HELD_HIGH = 6
POOL_USED = 7
POOL_USED_HIGH = 8
"""CUmemPool_attribute; the first three are ints, the others 64-bit numbers."""

GRANULARITY_MINIMUM = 0
GRANULARITY_RECOMMENDED = 1

STREAM_BLOCKING = 0
STREAM_NON_BLOCKING = 1
LEGACY_STREAM = 1
"""The handle that names the legacy default stream."""

EVENT_DEFAULT = 0
EVENT_DISABLE_TIMING = 2
EVENT_INTERPROCESS = 4

ATTRIBUTE_VMM_SUPPORTED = 102
ATTRIBUTE_POSIX_FD_SUPPORTED = 103

ATTRIBUTE_POOLS_SUPPORTED = 115
ATTRIBUTE_POOL_HANDLE_TYPES = 119
ATTRIBUTE_HOST_NUMA_POOLS_SUPPORTED = 142
ATTRIBUTE_HOST_POOLS_SUPPORTED = 144
ATTRIBUTE_HOST_VMM_SUPPORTED = 145

ATTRIBUTE_MANAGED_MEMORY = 83
ATTRIBUTE_PAGEABLE_ACCESS = 88
ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89
ATTRIBUTE_PAGEABLE_ACCESS_BY_HOST_TABLES = 100
ATTRIBUTE_DIRECT_MANAGED_ACCESS_FROM_HOST = 101

ATTACH_GLOBAL = 1
ATTACH_HOST = 2
ATTACH_SINGLE = 4

ADVISE_SET_READ_MOSTLY = 1
ADVISE_UNSET_READ_MOSTLY = 2
ADVISE_SET_PREFERRED = 3
ADVISE_UNSET_PREFERRED = 4
ADVISE_SET_ACCESSED_BY = 5
ADVISE_UNSET_ACCESSED_BY = 6

RANGE_READ_MOSTLY = 1
RANGE_PREFERRED = 2
RANGE_ACCESSED_BY = 3
RANGE_LAST_PREFETCH = 4
RANGE_PREFERRED_TYPE = 5
RANGE_PREFERRED_ID = 6
RANGE_LAST_PREFETCH_TYPE = 7
RANGE_LAST_PREFETCH_ID = 8

DEVICE_CPU = -1
DEVICE_NONE = -2

POINTER_MEMORY_TYPE = 2
POINTER_HOST_POINTER = 4
POINTER_IS_MANAGED = 8
POINTER_DEVICE_ORDINAL = 9
POINTER_IS_LEGACY_IPC_CAPABLE = 10
POINTER_RANGE_START = 11
POINTER_RANGE_SIZE = 12
POINTER_MAPPED = 13
POINTER_ALLOWED_HANDLE_TYPES = 14
POINTER_ACCESS_FLAGS = 16
POINTER_MEMPOOL_HANDLE = 17
POINTER_MAPPING_SIZE = 18
POINTER_MAPPING_BASE = 19
POINTER_MEMORY_BLOCK_ID = 20


class MemLocation(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = (("type", c_int), ("id", c_int))


class MemAccessDesc(ctypes.Structure):
    """CUmemAccessDesc; arrays of it have a stride of 12 bytes."""

    _fields_ = (("location", MemLocation), ("flags", c_int))


class MemAllocFlags(ctypes.Structure):
    """The anonymous struct `allocFlags` of CUmemAllocationProp."""

    _fields_ = (
        ("compression_type", c_uint8),
        ("gpu_direct_rdma_capable", c_uint8),
        ("usage", c_uint16),
        ("reserved", c_uint8 * 4),
    )


class MemAllocationProp(ctypes.Structure):
    """CUmemAllocationProp; ctypes zeroes all of it, which the contract asks for."""

    _fields_ = (
        ("type", c_int),
        ("requested_handle_types", c_int),
        ("location", MemLocation),
        ("win32_handle_meta_data", c_void_p),
        ("alloc_flags", MemAllocFlags),
    )


class MemPoolProps(ctypes.Structure):
    """CUmemPoolProps; `max_size` exists since CUDA 12.2 and `usage` since 12.8."""

    _fields_ = (
        ("alloc_type", c_int),
        ("handle_types", c_int),
        ("location", MemLocation),
        ("win32_security_attributes", c_void_p),
        ("max_size", ctypes.c_size_t),
        ("usage", c_uint16),
        ("reserved", c_uint8 * 54),
    )


class MemPoolPtrExportData(ctypes.Structure):
    """CUmemPoolPtrExportData."""

    _fields_ = (("reserved", c_uint8 * 64),)


class EmulatorRange(ctypes.Structure):
    """memlakeEmulatorRange: what a piece of emulated device work touches."""

    _fields_ = (("address", ctypes.c_uint64), ("size", ctypes.c_uint64), ("is_write", c_int))


HostFunction = ctypes.CFUNCTYPE(None, c_void_p)
"""CUhostFn."""


def device_prop(device: int, handle_types: int = HANDLE_NONE) -> MemAllocationProp:
    """What ordinary device memory is created with."""
    return MemAllocationProp(
        type=ALLOCATION_PINNED,
        requested_handle_types=handle_types,
        location=MemLocation(type=LOCATION_DEVICE, id=device),
    )


def access_descs(devices: list[int], flags: int) -> ctypes.Array[MemAccessDesc]:
    """One descriptor per device, all with the same rights."""
    descs = (MemAccessDesc * len(devices))()
    for desc, device in zip(descs, devices, strict=True):
        desc.location = MemLocation(type=LOCATION_DEVICE, id=device)
        desc.flags = flags
    return descs


def result_name(code: int) -> str:
    """`1 (INVALID_VALUE)`; a number without a name stays a number."""
    try:
        return f"{int(code)} ({Result(code).name})"
    except ValueError:
        return str(int(code))


SIZES = {
    MemLocation: 8,
    MemAccessDesc: 12,
    MemAllocationProp: 32,
    MemPoolProps: 88,
    MemPoolPtrExportData: 64,
}
for _struct, _size in SIZES.items():
    if ctypes.sizeof(_struct) != _size:
        raise ImportError(f"{_struct.__name__} has {ctypes.sizeof(_struct)} bytes here; CUDA's has {_size}")
