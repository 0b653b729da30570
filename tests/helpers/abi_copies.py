"""The structs of copies of rectangles, boxes and batches, as ctypes sees them, and makers of them."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_uint, c_uint64, c_void_p

from helpers.abi_types import MemLocation

HOST_TYPE = 1
DEVICE_TYPE = 2
ARRAY_TYPE = 3
UNIFIED_TYPE = 4

ORDER_STREAM = 1
ORDER_DURING_CALL = 2
ORDER_ANY = 3

OPERAND_POINTER = 1
OPERAND_ARRAY = 2


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = (
        ("src_x", c_size_t),
        ("src_y", c_size_t),
        ("src_type", c_int),
        ("src_host", c_void_p),
        ("src_device", c_uint64),
        ("src_array", c_void_p),
        ("src_pitch", c_size_t),
        ("dst_x", c_size_t),
        ("dst_y", c_size_t),
        ("dst_type", c_int),
        ("dst_host", c_void_p),
        ("dst_device", c_uint64),
        ("dst_array", c_void_p),
        ("dst_pitch", c_size_t),
        ("width", c_size_t),
        ("height", c_size_t),
    )


class Copy3D(ctypes.Structure):
    """CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER: the contexts are reserved in the first."""

    _fields_ = (
        ("src_x", c_size_t),
        ("src_y", c_size_t),
        ("src_z", c_size_t),
        ("src_lod", c_size_t),
        ("src_type", c_int),
        ("src_host", c_void_p),
        ("src_device", c_uint64),
        ("src_array", c_void_p),
        ("src_context", c_void_p),
        ("src_pitch", c_size_t),
        ("src_height", c_size_t),
        ("dst_x", c_size_t),
        ("dst_y", c_size_t),
        ("dst_z", c_size_t),
        ("dst_lod", c_size_t),
        ("dst_type", c_int),
        ("dst_host", c_void_p),
        ("dst_device", c_uint64),
        ("dst_array", c_void_p),
        ("dst_context", c_void_p),
        ("dst_pitch", c_size_t),
        ("dst_height", c_size_t),
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
    )


class CopyAttributes(ctypes.Structure):
    """CUmemcpyAttributes."""

    _fields_ = (("order", c_int), ("src_hint", MemLocation), ("dst_hint", MemLocation), ("flags", c_uint))


class Operand(ctypes.Structure):
    """CUmemcpy3DOperand of a pointer, with the padding that the array's variant needs."""

    _fields_ = (
        ("type", c_int),
        ("address", c_uint64),
        ("row_length", c_size_t),
        ("layer_height", c_size_t),
        ("hint", MemLocation),
    )


class BatchCopy(ctypes.Structure):
    """CUDA_MEMCPY3D_BATCH_OP."""

    _fields_ = (
        ("src", Operand),
        ("dst", Operand),
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("order", c_int),
        ("flags", c_uint),
    )


class ArrayOperand(ctypes.Structure):
    """CUmemcpy3DOperand of an array."""

    _fields_ = (("type", c_int), ("array", c_void_p), ("x", c_size_t), ("y", c_size_t), ("z", c_size_t))


class ArrayBatchCopy(ctypes.Structure):
    """CUDA_MEMCPY3D_BATCH_OP from a pointer to an array."""

    _fields_ = (
        ("src", Operand),
        ("dst", ArrayOperand),
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("order", c_int),
        ("flags", c_uint),
    )


SIZES = {Copy2D: 128, Copy3D: 200, CopyAttributes: 24, Operand: 40, BatchCopy: 112, ArrayBatchCopy: 112}
for _struct, _size in SIZES.items():
    if ctypes.sizeof(_struct) != _size:
        raise ImportError(f"{_struct.__name__} has {ctypes.sizeof(_struct)} bytes here; CUDA's has {_size}")


def rectangle(
    destination: tuple[int, int, int], source: tuple[int, int, int], width: int, height: int, **fields: int
) -> Copy2D:
    """A copy between (type, address, pitch) and (type, address, pitch)."""
    copy = Copy2D(width=width, height=height, **fields)
    for prefix, (kind, address, pitch) in (("dst", destination), ("src", source)):
        setattr(copy, f"{prefix}_type", kind)
        setattr(copy, f"{prefix}_host" if kind == HOST_TYPE else f"{prefix}_device", address)
        setattr(copy, f"{prefix}_pitch", pitch)
    return copy


def box(
    destination: tuple[int, int, int, int],
    source: tuple[int, int, int, int],
    extent: tuple[int, int, int],
    **fields: int,
) -> Copy3D:
    """A copy between (type, address, pitch, height) and (type, address, pitch, height)."""
    copy = Copy3D(width=extent[0], height=extent[1], depth=extent[2], **fields)
    for prefix, (kind, address, pitch, height) in (("dst", destination), ("src", source)):
        setattr(copy, f"{prefix}_type", kind)
        setattr(copy, f"{prefix}_host" if kind == HOST_TYPE else f"{prefix}_device", address)
        setattr(copy, f"{prefix}_pitch", pitch)
        setattr(copy, f"{prefix}_height", height)
    return copy
