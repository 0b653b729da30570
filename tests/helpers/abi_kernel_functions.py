"""Symbols and argument types of the driver functions of modules, libraries, kernels and the linker."""

from __future__ import annotations

from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p

_OBJECT = c_void_p
_OUT = POINTER(c_void_p)
_SIZE = POINTER(c_size_t)
_JIT = [c_uint, c_void_p, c_void_p]
_LIBRARY_OPTIONS = [c_void_p, c_void_p, c_uint, c_void_p, c_void_p, c_uint]
_SHAPE = [c_uint] * 7

KERNEL_FUNCTIONS: dict[str, tuple[str, list[object]]] = {
    "cuCtxCreate": ("cuCtxCreate_v2", [_OUT, c_uint, c_int]),
    "cuCtxDestroy": ("cuCtxDestroy_v2", [_OBJECT]),
    "cuModuleLoad": ("cuModuleLoad", [_OUT, c_char_p]),
    "cuModuleLoadData": ("cuModuleLoadData", [_OUT, c_void_p]),
    "cuModuleLoadDataEx": ("cuModuleLoadDataEx", [_OUT, c_void_p, *_JIT]),
    "cuModuleLoadFatBinary": ("cuModuleLoadFatBinary", [_OUT, c_void_p]),
    "cuModuleUnload": ("cuModuleUnload", [_OBJECT]),
    "cuModuleGetFunction": ("cuModuleGetFunction", [_OUT, _OBJECT, c_char_p]),
    "cuModuleGetFunctionCount": ("cuModuleGetFunctionCount", [POINTER(c_uint), _OBJECT]),
    "cuModuleEnumerateFunctions": ("cuModuleEnumerateFunctions", [_OUT, c_uint, _OBJECT]),
    "cuModuleGetGlobal": ("cuModuleGetGlobal_v2", [POINTER(c_uint64), _SIZE, _OBJECT, c_char_p]),
    "cuLibraryLoadData": ("cuLibraryLoadData", [_OUT, c_void_p, *_LIBRARY_OPTIONS]),
    "cuLibraryLoadFromFile": ("cuLibraryLoadFromFile", [_OUT, c_char_p, *_LIBRARY_OPTIONS]),
    "cuLibraryUnload": ("cuLibraryUnload", [_OBJECT]),
    "cuLibraryGetKernel": ("cuLibraryGetKernel", [_OUT, _OBJECT, c_char_p]),
    "cuLibraryGetKernelCount": ("cuLibraryGetKernelCount", [POINTER(c_uint), _OBJECT]),
    "cuLibraryGetModule": ("cuLibraryGetModule", [_OUT, _OBJECT]),
    "cuLibraryGetGlobal": ("cuLibraryGetGlobal", [POINTER(c_uint64), _SIZE, _OBJECT, c_char_p]),
    "cuLibraryGetManaged": ("cuLibraryGetManaged", [POINTER(c_uint64), _SIZE, _OBJECT, c_char_p]),
    "cuKernelGetFunction": ("cuKernelGetFunction", [_OUT, _OBJECT]),
    "cuKernelGetLibrary": ("cuKernelGetLibrary", [_OUT, _OBJECT]),
    "cuKernelGetName": ("cuKernelGetName", [POINTER(c_char_p), _OBJECT]),
    "cuKernelGetAttribute": ("cuKernelGetAttribute", [POINTER(c_int), c_int, _OBJECT, c_int]),
    "cuKernelSetAttribute": ("cuKernelSetAttribute", [c_int, c_int, _OBJECT, c_int]),
    "cuKernelGetParamInfo": ("cuKernelGetParamInfo", [_OBJECT, c_size_t, _SIZE, _SIZE]),
    "cuFuncGetAttribute": ("cuFuncGetAttribute", [POINTER(c_int), c_int, _OBJECT]),
    "cuFuncSetAttribute": ("cuFuncSetAttribute", [_OBJECT, c_int, c_int]),
    "cuFuncSetCacheConfig": ("cuFuncSetCacheConfig", [_OBJECT, c_int]),
    "cuFuncGetModule": ("cuFuncGetModule", [_OUT, _OBJECT]),
    "cuFuncGetName": ("cuFuncGetName", [POINTER(c_char_p), _OBJECT]),
    "cuFuncGetParamInfo": ("cuFuncGetParamInfo", [_OBJECT, c_size_t, _SIZE, _SIZE]),
    "cuFuncIsLoaded": ("cuFuncIsLoaded", [POINTER(c_int), _OBJECT]),
    "cuFuncLoad": ("cuFuncLoad", [_OBJECT]),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        [POINTER(c_int), _OBJECT, c_int, c_size_t],
    ),
    "cuOccupancyMaxPotentialBlockSize": (
        "cuOccupancyMaxPotentialBlockSize",
        [POINTER(c_int), POINTER(c_int), _OBJECT, c_void_p, c_size_t, c_int],
    ),
    "cuOccupancyAvailableDynamicSMemPerBlock": (
        "cuOccupancyAvailableDynamicSMemPerBlock",
        [_SIZE, _OBJECT, c_int, c_int],
    ),
    "cuLinkCreate": ("cuLinkCreate_v2", [*_JIT, _OUT]),
    "cuLinkAddData": ("cuLinkAddData_v2", [_OBJECT, c_int, c_void_p, c_size_t, c_char_p, *_JIT]),
    "cuLinkComplete": ("cuLinkComplete", [_OBJECT, _OUT, _SIZE]),
    "cuLinkDestroy": ("cuLinkDestroy", [_OBJECT]),
    "cuFuncGetParamCount": ("cuFuncGetParamCount", [_OBJECT, _SIZE]),
    "cuKernelGetParamCount": ("cuKernelGetParamCount", [_OBJECT, _SIZE]),
    "cuFuncSetBlockShape": ("cuFuncSetBlockShape", [_OBJECT, c_int, c_int, c_int]),
    "cuFuncSetSharedSize": ("cuFuncSetSharedSize", [_OBJECT, c_uint]),
    "cuParamSetSize": ("cuParamSetSize", [_OBJECT, c_uint]),
    "cuParamSeti": ("cuParamSeti", [_OBJECT, c_int, c_uint]),
    "cuParamSetf": ("cuParamSetf", [_OBJECT, c_int, c_float]),
    "cuParamSetv": ("cuParamSetv", [_OBJECT, c_int, c_void_p, c_uint]),
    "cuLaunch": ("cuLaunch", [_OBJECT]),
    "cuLaunchGrid": ("cuLaunchGrid", [_OBJECT, c_int, c_int]),
    "cuLaunchGridAsync": ("cuLaunchGridAsync", [_OBJECT, c_int, c_int, _OBJECT]),
    "cuLaunchKernel": ("cuLaunchKernel", [_OBJECT, *_SHAPE, _OBJECT, c_void_p, c_void_p]),
    "cuLaunchKernelEx": ("cuLaunchKernelEx", [c_void_p, _OBJECT, c_void_p, c_void_p]),
    "cuLaunchCooperativeKernel": ("cuLaunchCooperativeKernel", [_OBJECT, *_SHAPE, _OBJECT, c_void_p]),
}
