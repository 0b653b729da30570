"""Symbols and argument types of the driver functions the cases call, and of the emulator's own functions.

The symbols are the suffixed ones: the plain `cuMemAlloc` is the version before CUDA 3.2, with 32-bit addresses. Every
argument is declared, because ctypes passes an undeclared 64-bit address as a C int.
"""

from __future__ import annotations

from ctypes import (
    POINTER,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint64,
    c_ulonglong,
    c_ushort,
    c_void_p,
)

from helpers.abi_types import (
    EmulatorRange,
    HostFunction,
    MemAccessDesc,
    MemAllocationProp,
    MemLocation,
    MemPoolProps,
    MemPoolPtrExportData,
)

Signature = tuple[str, list[object]]

_ADDRESS = c_uint64
_HANDLE = c_uint64
_DEVICE = c_int
_OBJECT = c_void_p  # a context, a stream or an event

FUNCTIONS: dict[str, Signature] = {
    # initialisation, errors
    "cuInit": ("cuInit", [c_uint]),
    "cuDriverGetVersion": ("cuDriverGetVersion", [POINTER(c_int)]),
    "cuGetErrorName": ("cuGetErrorName", [c_int, POINTER(c_char_p)]),
    "cuGetErrorString": ("cuGetErrorString", [c_int, POINTER(c_char_p)]),
    "cuGetProcAddress": (
        "cuGetProcAddress_v2",
        [c_char_p, POINTER(c_void_p), c_int, c_uint64, POINTER(c_int)],
    ),
    # devices
    "cuDeviceGetCount": ("cuDeviceGetCount", [POINTER(c_int)]),
    "cuDeviceGet": ("cuDeviceGet", [POINTER(_DEVICE), c_int]),
    "cuDeviceGetName": ("cuDeviceGetName", [c_void_p, c_int, _DEVICE]),
    "cuDeviceTotalMem": ("cuDeviceTotalMem_v2", [POINTER(c_size_t), _DEVICE]),
    "cuDeviceGetAttribute": ("cuDeviceGetAttribute", [POINTER(c_int), c_int, _DEVICE]),
    "cuDeviceCanAccessPeer": ("cuDeviceCanAccessPeer", [POINTER(c_int), _DEVICE, _DEVICE]),
    "cuDeviceGetP2PAttribute": ("cuDeviceGetP2PAttribute", [POINTER(c_int), c_int, _DEVICE, _DEVICE]),
    # contexts
    "cuDevicePrimaryCtxGetState": ("cuDevicePrimaryCtxGetState", [_DEVICE, POINTER(c_uint), POINTER(c_int)]),
    "cuDevicePrimaryCtxRetain": ("cuDevicePrimaryCtxRetain", [POINTER(_OBJECT), _DEVICE]),
    "cuDevicePrimaryCtxRelease": ("cuDevicePrimaryCtxRelease_v2", [_DEVICE]),
    "cuCtxSetCurrent": ("cuCtxSetCurrent", [_OBJECT]),
    "cuCtxGetCurrent": ("cuCtxGetCurrent", [POINTER(_OBJECT)]),
    "cuCtxGetDevice": ("cuCtxGetDevice", [POINTER(_DEVICE)]),
    "cuCtxSynchronize": ("cuCtxSynchronize", []),
    "cuCtxEnablePeerAccess": ("cuCtxEnablePeerAccess", [_OBJECT, c_uint]),
    "cuCtxDisablePeerAccess": ("cuCtxDisablePeerAccess", [_OBJECT]),
    # plain memory
    "cuMemGetInfo": ("cuMemGetInfo_v2", [POINTER(c_size_t), POINTER(c_size_t)]),
    "cuMemAlloc": ("cuMemAlloc_v2", [POINTER(_ADDRESS), c_size_t]),
    "cuMemFree": ("cuMemFree_v2", [_ADDRESS]),
    "cuMemGetAddressRange": ("cuMemGetAddressRange_v2", [POINTER(_ADDRESS), POINTER(c_size_t), _ADDRESS]),
    "cuMemHostAlloc": ("cuMemHostAlloc", [POINTER(c_void_p), c_size_t, c_uint]),
    "cuMemFreeHost": ("cuMemFreeHost", [c_void_p]),
    "cuMemHostRegister": ("cuMemHostRegister_v2", [c_void_p, c_size_t, c_uint]),
    "cuMemHostUnregister": ("cuMemHostUnregister", [c_void_p]),
    "cuPointerGetAttribute": ("cuPointerGetAttribute", [c_void_p, c_int, _ADDRESS]),
    "cuPointerGetAttributes": ("cuPointerGetAttributes", [c_uint, POINTER(c_int), POINTER(c_void_p), _ADDRESS]),
    "cuIpcGetMemHandle": ("cuIpcGetMemHandle", [c_void_p, _ADDRESS]),
    # copies and fills
    "cuMemcpyHtoD": ("cuMemcpyHtoD_v2", [_ADDRESS, c_void_p, c_size_t]),
    "cuMemcpyDtoH": ("cuMemcpyDtoH_v2", [c_void_p, _ADDRESS, c_size_t]),
    "cuMemcpyDtoD": ("cuMemcpyDtoD_v2", [_ADDRESS, _ADDRESS, c_size_t]),
    "cuMemcpyDtoDAsync": ("cuMemcpyDtoDAsync_v2", [_ADDRESS, _ADDRESS, c_size_t, _OBJECT]),
    "cuMemsetD8": ("cuMemsetD8_v2", [_ADDRESS, c_ubyte, c_size_t]),
    "cuMemsetD8Async": ("cuMemsetD8Async", [_ADDRESS, c_ubyte, c_size_t, _OBJECT]),
    "cuMemsetD16": ("cuMemsetD16_v2", [_ADDRESS, c_ushort, c_size_t]),
    "cuMemsetD32": ("cuMemsetD32_v2", [_ADDRESS, c_uint, c_size_t]),
    # streams and events
    "cuStreamCreate": ("cuStreamCreate", [POINTER(_OBJECT), c_uint]),
    "cuStreamDestroy": ("cuStreamDestroy_v2", [_OBJECT]),
    "cuStreamQuery": ("cuStreamQuery", [_OBJECT]),
    "cuStreamSynchronize": ("cuStreamSynchronize", [_OBJECT]),
    "cuStreamWaitEvent": ("cuStreamWaitEvent", [_OBJECT, _OBJECT, c_uint]),
    "cuLaunchHostFunc": ("cuLaunchHostFunc", [_OBJECT, HostFunction, c_void_p]),
    "cuEventCreate": ("cuEventCreate", [POINTER(_OBJECT), c_uint]),
    "cuEventDestroy": ("cuEventDestroy_v2", [_OBJECT]),
    "cuEventRecord": ("cuEventRecord", [_OBJECT, _OBJECT]),
    "cuEventQuery": ("cuEventQuery", [_OBJECT]),
    "cuEventSynchronize": ("cuEventSynchronize", [_OBJECT]),
    "cuEventElapsedTime": ("cuEventElapsedTime", [POINTER(c_float), _OBJECT, _OBJECT]),
    # virtual memory
    "cuMemGetAllocationGranularity": (
        "cuMemGetAllocationGranularity",
        [POINTER(c_size_t), POINTER(MemAllocationProp), c_int],
    ),
    "cuMemAddressReserve": ("cuMemAddressReserve", [POINTER(_ADDRESS), c_size_t, c_size_t, _ADDRESS, c_ulonglong]),
    "cuMemAddressFree": ("cuMemAddressFree", [_ADDRESS, c_size_t]),
    "cuMemCreate": ("cuMemCreate", [POINTER(_HANDLE), c_size_t, POINTER(MemAllocationProp), c_ulonglong]),
    "cuMemRelease": ("cuMemRelease", [_HANDLE]),
    "cuMemRetainAllocationHandle": ("cuMemRetainAllocationHandle", [POINTER(_HANDLE), c_void_p]),
    "cuMemMap": ("cuMemMap", [_ADDRESS, c_size_t, c_size_t, _HANDLE, c_ulonglong]),
    "cuMemUnmap": ("cuMemUnmap", [_ADDRESS, c_size_t]),
    "cuMemSetAccess": ("cuMemSetAccess", [_ADDRESS, c_size_t, POINTER(MemAccessDesc), c_size_t]),
    "cuMemGetAccess": ("cuMemGetAccess", [POINTER(c_ulonglong), POINTER(MemLocation), _ADDRESS]),
    "cuMemGetAllocationPropertiesFromHandle": (
        "cuMemGetAllocationPropertiesFromHandle",
        [POINTER(MemAllocationProp), _HANDLE],
    ),
    "cuMemExportToShareableHandle": ("cuMemExportToShareableHandle", [c_void_p, _HANDLE, c_int, c_ulonglong]),
    "cuMemImportFromShareableHandle": ("cuMemImportFromShareableHandle", [POINTER(_HANDLE), c_void_p, c_int]),
}
FUNCTIONS |= {
    # stream-ordered memory pools
    name: (name, argtypes)
    for name, argtypes in {
        "cuDeviceGetDefaultMemPool": [POINTER(_OBJECT), _DEVICE],
        "cuDeviceGetMemPool": [POINTER(_OBJECT), _DEVICE],
        "cuDeviceSetMemPool": [_DEVICE, _OBJECT],
        "cuMemPoolCreate": [POINTER(_OBJECT), POINTER(MemPoolProps)],
        "cuMemPoolDestroy": [_OBJECT],
        "cuMemPoolSetAttribute": [_OBJECT, c_int, c_void_p],
        "cuMemPoolGetAttribute": [_OBJECT, c_int, c_void_p],
        "cuMemPoolTrimTo": [_OBJECT, c_size_t],
        "cuMemPoolSetAccess": [_OBJECT, POINTER(MemAccessDesc), c_size_t],
        "cuMemPoolGetAccess": [POINTER(c_int), _OBJECT, POINTER(MemLocation)],
        "cuMemAllocAsync": [POINTER(_ADDRESS), c_size_t, _OBJECT],
        "cuMemAllocFromPoolAsync": [POINTER(_ADDRESS), c_size_t, _OBJECT, _OBJECT],
        "cuMemFreeAsync": [_ADDRESS, _OBJECT],
        "cuMemPoolExportToShareableHandle": [c_void_p, _OBJECT, c_int, c_ulonglong],
        "cuMemPoolImportFromShareableHandle": [POINTER(_OBJECT), c_void_p, c_int, c_ulonglong],
        "cuMemPoolExportPointer": [POINTER(MemPoolPtrExportData), _ADDRESS],
        "cuMemPoolImportPointer": [POINTER(_ADDRESS), _OBJECT, POINTER(MemPoolPtrExportData)],
    }.items()
}
SINCE_13_0: dict[str, Signature] = {
    # the same by location and allocation type; not in older drivers
    name: (name, argtypes)
    for name, argtypes in {
        "cuMemGetDefaultMemPool": [POINTER(_OBJECT), POINTER(MemLocation), c_int],
        "cuMemGetMemPool": [POINTER(_OBJECT), POINTER(MemLocation), c_int],
        "cuMemSetMemPool": [POINTER(MemLocation), c_int, _OBJECT],
    }.items()
}
FUNCTIONS |= SINCE_13_0

ALLOWED_BEFORE_INIT = {"cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuGetProcAddress"}

EMULATOR_FUNCTIONS: dict[str, Signature] = {
    name: (name, argtypes)
    for name, argtypes in {
        "memlakeEmulatorAddDevices": [c_char_p, POINTER(c_int), POINTER(c_int)],
        "memlakeEmulatorCloseDevices": [c_int, c_int],
        "memlakeEmulatorIsHostBacked": [c_int, POINTER(c_int)],
        "memlakeEmulatorLedger": [c_char_p, POINTER(c_size_t)],
        "memlakeEmulatorLaunch": [_OBJECT, c_char_p, POINTER(EmulatorRange), c_size_t],
    }.items()
}
