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

from helpers.abi_arrays import ArrayDescriptor, ResourceDescriptor, TextureDescriptor, ViewDescriptor
from helpers.abi_copies import Copy2D, Copy3D, CopyAttributes
from helpers.abi_kernel_functions import KERNEL_FUNCTIONS
from helpers.abi_process_functions import CALLED_BEFORE_INIT, PROCESS_FUNCTIONS
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

_PREFETCH_BATCH: list[object] = [
    POINTER(_ADDRESS),
    POINTER(c_size_t),
    c_size_t,
    POINTER(MemLocation),
    POINTER(c_size_t),
    c_size_t,
    c_ulonglong,
    _OBJECT,
]

_COPY_BATCH: list[object] = [
    POINTER(_ADDRESS),
    POINTER(_ADDRESS),
    POINTER(c_size_t),
    c_size_t,
    POINTER(CopyAttributes),
    POINTER(c_size_t),
    c_size_t,
]

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
    # managed memory
    "cuMemAllocManaged": ("cuMemAllocManaged", [POINTER(_ADDRESS), c_size_t, c_uint]),
    "cuStreamAttachMemAsync": ("cuStreamAttachMemAsync", [_OBJECT, _ADDRESS, c_size_t, c_uint]),
    "cuMemPrefetchAsync": ("cuMemPrefetchAsync_v2", [_ADDRESS, c_size_t, MemLocation, c_uint, _OBJECT]),
    "cuMemPrefetchAsync_v1": ("cuMemPrefetchAsync", [_ADDRESS, c_size_t, _DEVICE, _OBJECT]),
    "cuMemAdvise": ("cuMemAdvise_v2", [_ADDRESS, c_size_t, c_int, MemLocation]),
    "cuMemAdvise_v1": ("cuMemAdvise", [_ADDRESS, c_size_t, c_int, _DEVICE]),
    "cuMemRangeGetAttribute": ("cuMemRangeGetAttribute", [c_void_p, c_size_t, c_int, _ADDRESS, c_size_t]),
    "cuMemRangeGetAttributes": (
        "cuMemRangeGetAttributes",
        [POINTER(c_void_p), POINTER(c_size_t), POINTER(c_int), c_size_t, _ADDRESS, c_size_t],
    ),
    "cuMemPrefetchBatchAsync": ("cuMemPrefetchBatchAsync", _PREFETCH_BATCH),
    "cuMemDiscardAndPrefetchBatchAsync": ("cuMemDiscardAndPrefetchBatchAsync", _PREFETCH_BATCH),
    "cuMemDiscardBatchAsync": (
        "cuMemDiscardBatchAsync",
        [POINTER(_ADDRESS), POINTER(c_size_t), c_size_t, c_ulonglong, _OBJECT],
    ),
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
    # arrays, textures, surfaces
    "cuArray3DCreate": ("cuArray3DCreate_v2", [POINTER(_OBJECT), POINTER(ArrayDescriptor)]),
    "cuArray3DGetDescriptor": ("cuArray3DGetDescriptor_v2", [POINTER(ArrayDescriptor), _OBJECT]),
    "cuArrayDestroy": ("cuArrayDestroy", [_OBJECT]),
    "cuMipmappedArrayCreate": ("cuMipmappedArrayCreate", [POINTER(_OBJECT), POINTER(ArrayDescriptor), c_uint]),
    "cuMipmappedArrayGetLevel": ("cuMipmappedArrayGetLevel", [POINTER(_OBJECT), _OBJECT, c_uint]),
    "cuMipmappedArrayDestroy": ("cuMipmappedArrayDestroy", [_OBJECT]),
    "cuTexObjectCreate": (
        "cuTexObjectCreate",
        [POINTER(c_uint64), POINTER(ResourceDescriptor), POINTER(TextureDescriptor), POINTER(ViewDescriptor)],
    ),
    "cuTexObjectDestroy": ("cuTexObjectDestroy", [c_uint64]),
    "cuTexObjectGetResourceDesc": ("cuTexObjectGetResourceDesc", [POINTER(ResourceDescriptor), c_uint64]),
    "cuTexObjectGetTextureDesc": ("cuTexObjectGetTextureDesc", [POINTER(TextureDescriptor), c_uint64]),
    "cuTexObjectGetResourceViewDesc": ("cuTexObjectGetResourceViewDesc", [POINTER(ViewDescriptor), c_uint64]),
    "cuSurfObjectCreate": ("cuSurfObjectCreate", [POINTER(c_uint64), POINTER(ResourceDescriptor)]),
    "cuSurfObjectDestroy": ("cuSurfObjectDestroy", [c_uint64]),
    "cuSurfObjectGetResourceDesc": ("cuSurfObjectGetResourceDesc", [POINTER(ResourceDescriptor), c_uint64]),
    "cuMemcpyDtoA": ("cuMemcpyDtoA_v2", [_OBJECT, c_size_t, _ADDRESS, c_size_t]),
    "cuMemcpyAtoD": ("cuMemcpyAtoD_v2", [_ADDRESS, _OBJECT, c_size_t, c_size_t]),
    "cuMemcpyHtoA": ("cuMemcpyHtoA_v2", [_OBJECT, c_size_t, c_void_p, c_size_t]),
    "cuMemcpyAtoH": ("cuMemcpyAtoH_v2", [c_void_p, _OBJECT, c_size_t, c_size_t]),
    "cuMemcpyAtoA": ("cuMemcpyAtoA_v2", [_OBJECT, c_size_t, _OBJECT, c_size_t, c_size_t]),
    "cuMemcpyHtoAAsync": ("cuMemcpyHtoAAsync_v2", [_OBJECT, c_size_t, c_void_p, c_size_t, _OBJECT]),
    "cuMemcpyAtoHAsync": ("cuMemcpyAtoHAsync_v2", [c_void_p, _OBJECT, c_size_t, c_size_t, _OBJECT]),
    # rectangles, boxes, batches
    "cuMemcpy2D": ("cuMemcpy2D_v2", [POINTER(Copy2D)]),
    "cuMemcpy2DUnaligned": ("cuMemcpy2DUnaligned_v2", [POINTER(Copy2D)]),
    "cuMemcpy2DAsync": ("cuMemcpy2DAsync_v2", [POINTER(Copy2D), _OBJECT]),
    "cuMemcpy3D": ("cuMemcpy3D_v2", [POINTER(Copy3D)]),
    "cuMemcpy3DAsync": ("cuMemcpy3DAsync_v2", [POINTER(Copy3D), _OBJECT]),
    "cuMemcpy3DPeer": ("cuMemcpy3DPeer", [POINTER(Copy3D)]),
    "cuMemcpy3DPeerAsync": ("cuMemcpy3DPeerAsync", [POINTER(Copy3D), _OBJECT]),
    "cuMemcpyBatchAsync": ("cuMemcpyBatchAsync_v2", [*_COPY_BATCH, _OBJECT]),
    "cuMemcpyBatchAsync_v1": ("cuMemcpyBatchAsync", [*_COPY_BATCH, POINTER(c_size_t), _OBJECT]),
    "cuMemcpy3DBatchAsync": ("cuMemcpy3DBatchAsync_v2", [c_size_t, c_void_p, c_ulonglong, _OBJECT]),
    "cuMemcpy3DBatchAsync_v1": (
        "cuMemcpy3DBatchAsync",
        [c_size_t, c_void_p, POINTER(c_size_t), c_ulonglong, _OBJECT],
    ),
    "cuMemsetD2D8": ("cuMemsetD2D8_v2", [_ADDRESS, c_size_t, c_ubyte, c_size_t, c_size_t]),
    "cuMemsetD2D8Async": ("cuMemsetD2D8Async", [_ADDRESS, c_size_t, c_ubyte, c_size_t, c_size_t, _OBJECT]),
    "cuMemsetD2D16": ("cuMemsetD2D16_v2", [_ADDRESS, c_size_t, c_ushort, c_size_t, c_size_t]),
    "cuMemsetD2D16Async": ("cuMemsetD2D16Async", [_ADDRESS, c_size_t, c_ushort, c_size_t, c_size_t, _OBJECT]),
    "cuMemsetD2D32": ("cuMemsetD2D32_v2", [_ADDRESS, c_size_t, c_uint, c_size_t, c_size_t]),
    "cuMemsetD2D32Async": ("cuMemsetD2D32Async", [_ADDRESS, c_size_t, c_uint, c_size_t, c_size_t, _OBJECT]),
    "cuMemAllocPitch": (
        "cuMemAllocPitch_v2",
        [POINTER(_ADDRESS), POINTER(c_size_t), c_size_t, c_size_t, c_uint],
    ),
    "cuMemcpyDtoD": ("cuMemcpyDtoD_v2", [_ADDRESS, _ADDRESS, c_size_t]),
    "cuMemcpyDtoDAsync": ("cuMemcpyDtoDAsync_v2", [_ADDRESS, _ADDRESS, c_size_t, _OBJECT]),
    "cuMemcpyHtoDAsync": ("cuMemcpyHtoDAsync_v2", [_ADDRESS, c_void_p, c_size_t, _OBJECT]),
    "cuMemcpyDtoHAsync": ("cuMemcpyDtoHAsync_v2", [c_void_p, _ADDRESS, c_size_t, _OBJECT]),
    "cuMemsetD8": ("cuMemsetD8_v2", [_ADDRESS, c_ubyte, c_size_t]),
    "cuMemsetD8Async": ("cuMemsetD8Async", [_ADDRESS, c_ubyte, c_size_t, _OBJECT]),
    "cuMemsetD16": ("cuMemsetD16_v2", [_ADDRESS, c_ushort, c_size_t]),
    "cuMemsetD32": ("cuMemsetD32_v2", [_ADDRESS, c_uint, c_size_t]),
    # streams and events
    "cuStreamCreate": ("cuStreamCreate", [POINTER(_OBJECT), c_uint]),
    "cuStreamDestroy": ("cuStreamDestroy_v2", [_OBJECT]),
    "cuStreamQuery": ("cuStreamQuery", [_OBJECT]),
    "cuStreamSynchronize": ("cuStreamSynchronize", [_OBJECT]),
    "cuStreamGetAttribute": ("cuStreamGetAttribute", [_OBJECT, c_int, c_void_p]),
    "cuStreamSetAttribute": ("cuStreamSetAttribute", [_OBJECT, c_int, c_void_p]),
    "cuStreamGetPriority": ("cuStreamGetPriority", [_OBJECT, POINTER(c_int)]),
    "cuStreamCopyAttributes": ("cuStreamCopyAttributes", [_OBJECT, _OBJECT]),
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
_NODES = [POINTER(_OBJECT), _OBJECT, c_void_p, c_size_t]  # the new node, the graph, its dependencies
FUNCTIONS |= {
    # graphs; structs are passed with byref
    name: (name, argtypes)
    for name, argtypes in {
        "cuGraphCreate": [POINTER(_OBJECT), c_uint],
        "cuGraphDestroy": [_OBJECT],
        "cuGraphClone": [POINTER(_OBJECT), _OBJECT],
        "cuGraphNodeFindInClone": [POINTER(_OBJECT), _OBJECT, _OBJECT],
        "cuGraphNodeGetType": [_OBJECT, POINTER(c_int)],
        "cuGraphGetNodes": [_OBJECT, c_void_p, POINTER(c_size_t)],
        "cuGraphGetRootNodes": [_OBJECT, c_void_p, POINTER(c_size_t)],
        "cuGraphNodeGetDependencies": [_OBJECT, c_void_p, POINTER(c_size_t)],
        "cuGraphNodeGetDependentNodes": [_OBJECT, c_void_p, POINTER(c_size_t)],
        "cuGraphAddDependencies": [_OBJECT, c_void_p, c_void_p, c_size_t],
        "cuGraphRemoveDependencies": [_OBJECT, c_void_p, c_void_p, c_size_t],
        "cuGraphDestroyNode": [_OBJECT],
        "cuGraphDebugDotPrint": [_OBJECT, c_void_p, c_uint],
        "cuGraphAddEmptyNode": _NODES,
        "cuGraphAddNode": [*_NODES, c_void_p],
        "cuGraphNodeSetParams": [_OBJECT, c_void_p],
        "cuGraphExecNodeSetParams": [_OBJECT, _OBJECT, c_void_p],
        "cuGraphKernelNodeGetAttribute": [_OBJECT, c_int, c_void_p],
        "cuGraphKernelNodeSetAttribute": [_OBJECT, c_int, c_void_p],
        "cuGraphKernelNodeCopyAttributes": [_OBJECT, _OBJECT],
        "cuGraphAddMemcpyNode": [*_NODES, c_void_p, _OBJECT],
        "cuGraphAddMemsetNode": [*_NODES, c_void_p, _OBJECT],
        "cuGraphAddHostNode": [*_NODES, c_void_p],
        "cuGraphAddChildGraphNode": [*_NODES, _OBJECT],
        "cuGraphChildGraphNodeGetGraph": [_OBJECT, POINTER(_OBJECT)],
        "cuGraphAddEventRecordNode": [*_NODES, _OBJECT],
        "cuGraphAddEventWaitNode": [*_NODES, _OBJECT],
        "cuGraphAddMemAllocNode": [*_NODES, c_void_p],
        "cuGraphAddMemFreeNode": [*_NODES, _ADDRESS],
        "cuGraphMemsetNodeGetParams": [_OBJECT, c_void_p],
        "cuGraphMemsetNodeSetParams": [_OBJECT, c_void_p],
        "cuGraphInstantiateWithFlags": [POINTER(_OBJECT), _OBJECT, c_ulonglong],
        "cuGraphInstantiateWithParams": [POINTER(_OBJECT), _OBJECT, c_void_p],
        "cuGraphExecMemcpyNodeSetParams": [_OBJECT, _OBJECT, c_void_p, _OBJECT],
        "cuGraphExecDestroy": [_OBJECT],
        "cuGraphMemAllocNodeGetParams": [_OBJECT, c_void_p],
        "cuGraphExecGetFlags": [_OBJECT, POINTER(c_uint64)],
        "cuGraphExecMemsetNodeSetParams": [_OBJECT, _OBJECT, c_void_p, _OBJECT],
        "cuGraphNodeSetEnabled": [_OBJECT, _OBJECT, c_uint],
        "cuGraphNodeGetEnabled": [_OBJECT, _OBJECT, POINTER(c_uint)],
        "cuGraphUpload": [_OBJECT, _OBJECT],
        "cuGraphLaunch": [_OBJECT, _OBJECT],
        "cuUserObjectCreate": [POINTER(_OBJECT), c_void_p, HostFunction, c_uint, c_uint],
        "cuUserObjectRelease": [_OBJECT, c_uint],
        "cuGraphRetainUserObject": [_OBJECT, _OBJECT, c_uint, c_uint],
        "cuDeviceGraphMemTrim": [_DEVICE],
        "cuDeviceGetGraphMemAttribute": [_DEVICE, c_int, c_void_p],
        "cuDeviceSetGraphMemAttribute": [_DEVICE, c_int, c_void_p],
        "cuStreamEndCapture": [_OBJECT, POINTER(_OBJECT)],
        "cuStreamIsCapturing": [_OBJECT, POINTER(c_int)],
        "cuEventRecordWithFlags": [_OBJECT, _OBJECT, c_uint],
    }.items()
}
FUNCTIONS |= {
    "cuGraphAddKernelNode": ("cuGraphAddKernelNode_v2", [*_NODES, c_void_p]),
    "cuGraphKernelNodeGetParams": ("cuGraphKernelNodeGetParams_v2", [_OBJECT, c_void_p]),
    "cuGraphKernelNodeSetParams": ("cuGraphKernelNodeSetParams_v2", [_OBJECT, c_void_p]),
    "cuGraphExecKernelNodeSetParams": ("cuGraphExecKernelNodeSetParams_v2", [_OBJECT, _OBJECT, c_void_p]),
    "cuGraphExecUpdate": ("cuGraphExecUpdate_v2", [_OBJECT, _OBJECT, c_void_p]),
    "cuStreamBeginCapture": ("cuStreamBeginCapture_v2", [_OBJECT, c_int]),
    "cuStreamGetCaptureInfo": (
        "cuStreamGetCaptureInfo_v2",
        [_OBJECT, POINTER(c_int), POINTER(c_uint64), POINTER(_OBJECT), c_void_p, POINTER(c_size_t)],
    ),
}
SINCE_13_0: dict[str, Signature] = {
    # pools by location and allocation type, and the parameters of graph nodes; not in older drivers
    name: (name, argtypes)
    for name, argtypes in {
        "cuMemGetDefaultMemPool": [POINTER(_OBJECT), POINTER(MemLocation), c_int],
        "cuMemGetMemPool": [POINTER(_OBJECT), POINTER(MemLocation), c_int],
        "cuMemSetMemPool": [POINTER(MemLocation), c_int, _OBJECT],
        "cuGraphNodeGetParams": [_OBJECT, c_void_p],  # since 13.2
    }.items()
}
FUNCTIONS |= SINCE_13_0

ALLOWED_BEFORE_INIT = {
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    *CALLED_BEFORE_INIT,
}

FUNCTIONS |= KERNEL_FUNCTIONS
FUNCTIONS |= PROCESS_FUNCTIONS

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
