"""The structs of arrays, textures and surfaces, as ctypes sees them."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import ClassVar

UNSIGNED_INT8 = 0x01
SIGNED_INT8 = 0x08
FLOAT = 0x20

LAYERED = 0x01
SURFACE = 0x02
CUBEMAP = 0x04

RESOURCE_ARRAY = 0
RESOURCE_MIPMAP = 1
RESOURCE_LINEAR = 2
RESOURCE_PITCH2D = 3


class ArrayDescriptor(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = (
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("format", c_int),
        ("channels", c_uint),
        ("flags", c_uint),
    )


class Linear(ctypes.Structure):
    """The member `linear` of CUDA_RESOURCE_DESC."""

    _fields_ = (("address", c_uint64), ("format", c_int), ("channels", c_uint), ("size", c_size_t))


class Pitched(ctypes.Structure):
    """The member `pitch2D` of CUDA_RESOURCE_DESC."""

    _fields_ = (
        ("address", c_uint64),
        ("format", c_int),
        ("channels", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
        ("pitch", c_size_t),
    )


class Resource(ctypes.Union):
    """The union of CUDA_RESOURCE_DESC; `handle` is that of an array or a mipmapped array."""

    _fields_ = (("handle", c_void_p), ("linear", Linear), ("pitched", Pitched), ("reserved", c_int * 32))


class ResourceDescriptor(ctypes.Structure):
    """CUDA_RESOURCE_DESC."""

    _anonymous_: ClassVar = ("resource",)
    _fields_ = (("type", c_int), ("resource", Resource), ("flags", c_uint))


class TextureDescriptor(ctypes.Structure):
    """CUDA_TEXTURE_DESC."""

    _fields_ = (
        ("address_mode", c_int * 3),
        ("filter_mode", c_int),
        ("flags", c_uint),
        ("max_anisotropy", c_uint),
        ("mipmap_filter_mode", c_int),
        ("mipmap_level", c_float * 3),
        ("border_color", c_float * 4),
        ("reserved", c_int * 12),
    )


class ViewDescriptor(ctypes.Structure):
    """CUDA_RESOURCE_VIEW_DESC."""

    _fields_ = (
        ("format", c_int),
        ("extent", c_size_t * 3),
        ("levels_and_layers", c_uint * 4),
        ("reserved", c_uint * 16),
    )


SIZES = {ArrayDescriptor: 40, ResourceDescriptor: 144, TextureDescriptor: 104, ViewDescriptor: 112}
for _struct, _size in SIZES.items():
    if ctypes.sizeof(_struct) != _size:
        raise ImportError(f"{_struct.__name__} has {ctypes.sizeof(_struct)} bytes here; CUDA's has {_size}")
