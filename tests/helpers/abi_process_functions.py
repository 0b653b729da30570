"""The driver functions about whole processes: checkpoints and core dumps. Their structs and constants."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int, c_size_t, c_uint, c_uint64, c_void_p

RUNNING, LOCKED, CHECKPOINTED = 0, 1, 2
"""CUprocessState."""
ON_EXCEPTION, TRIGGER_HOST, LIGHTWEIGHT, USER_TRIGGER, FILE, PIPE, GENERATION_FLAGS = range(1, 8)
"""CUcoredumpSettings."""


class LockArgs(ctypes.Structure):
    """CUcheckpointLockArgs."""

    _fields_ = (("timeoutMs", c_uint), ("reserved0", c_uint), ("reserved1", c_uint64 * 7))


class ReservedArgs(ctypes.Structure):
    """CUcheckpointCheckpointArgs and CUcheckpointUnlockArgs."""

    _fields_ = (("reserved", c_uint64 * 8),)


class GpuPair(ctypes.Structure):
    """CUcheckpointGpuPair."""

    _fields_ = (("oldUuid", ctypes.c_ubyte * 16), ("newUuid", ctypes.c_ubyte * 16))


class RestoreArgs(ctypes.Structure):
    """CUcheckpointRestoreArgs."""

    _fields_ = (
        ("gpuPairs", POINTER(GpuPair)),
        ("gpuPairsCount", c_uint),
        ("reserved", ctypes.c_char * (52 - ctypes.sizeof(c_void_p))),
        ("reserved1", c_uint64),
    )


PROCESS_FUNCTIONS: dict[str, tuple[str, list[object]]] = {
    name: (name, argtypes)
    for name, argtypes in {
        "cuCheckpointProcessGetState": [c_int, POINTER(c_int)],
        "cuCheckpointProcessGetRestoreThreadId": [c_int, POINTER(c_int)],
        "cuCheckpointProcessLock": [c_int, c_void_p],
        "cuCheckpointProcessCheckpoint": [c_int, c_void_p],
        "cuCheckpointProcessRestore": [c_int, c_void_p],
        "cuCheckpointProcessUnlock": [c_int, c_void_p],
        "cuCoredumpGetAttribute": [c_int, c_void_p, POINTER(c_size_t)],
        "cuCoredumpSetAttribute": [c_int, c_void_p, POINTER(c_size_t)],
        "cuCoredumpGetAttributeGlobal": [c_int, c_void_p, POINTER(c_size_t)],
        "cuCoredumpSetAttributeGlobal": [c_int, c_void_p, POINTER(c_size_t)],
        "cuDeviceGetUuid": [c_void_p, c_int],
    }.items()
}
"""All but the core dump settings of a context and the UUID may be called before cuInit."""
CALLED_BEFORE_INIT = {name for name in PROCESS_FUNCTIONS if "Checkpoint" in name or name.endswith("Global")}
