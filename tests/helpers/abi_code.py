"""Images of kernels for the cases, and the verbs to load and launch them."""

from __future__ import annotations

from contextlib import contextmanager
from ctypes import (
    Array,
    Structure,
    addressof,
    byref,
    c_char_p,
    c_int,
    c_size_t,
    c_uint,
    c_uint64,
    c_void_p,
    create_string_buffer,
)
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from helpers.abi_world import World

_IMAGES = Path(__file__).parents[1] / "emulator" / "contract" / "images"

PTX = b"""
.version 7.0  // old, so that every driver of interest translates it
.target sm_70
.address_size 64

.visible .global .align 4 .u32 counter = 7;
.visible .global .align 4 .f32 table[3] = {0f3F800000, 0f40000000};
.visible .const .align 8 .b8 scale[32];

.visible .entry fill(
  .param .u64 fill_param_0,
  .param .u32 fill_param_1,
  .param .u64 fill_param_2
)
{
  ret;
}

.visible .entry limited(.param .align 8 .b8 a[16], .param .u16 b, .param .u64 c)
.maxntid 128, 1, 1
{
  .shared .align 4 .b8 tile[1024];
  ret;
}

.visible .entry nothing() { ret; }
"""
"""The declarations of kernels.cu, with empty kernels."""

CUBIN = (_IMAGES / "kernels.cubin").read_bytes()
LZ4_FATBIN = (_IMAGES / "kernels.lz4.fatbin").read_bytes()
ZSTD_FATBIN = (_IMAGES / "kernels.zstd.fatbin").read_bytes()

MAX_THREADS, SHARED_SIZE, NUM_REGISTERS, MAX_DYNAMIC_SHARED, CARVEOUT = 0, 1, 4, 8, 9
INPUT_CUBIN, INPUT_PTX, INPUT_OBJECT = 0, 1, 3


class LaunchAttribute(Structure):
    """CUlaunchAttribute; the value by its first number."""

    _fields_ = (("id", c_int), ("pad", c_int), ("value", c_int * 16))


class LaunchConfig(Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("count", c_uint),
    )


class Parameters:
    """Values for cuLaunchKernel's list of pointers, kept alive with it."""

    def __init__(self, *values: c_int | c_uint64) -> None:
        self._values = values
        self._pointers = (c_void_p * len(values))(*(addressof(value) for value in values))

    @property
    def pointers(self) -> Array[c_void_p]:
        """What cuLaunchKernel takes."""
        return self._pointers


def load(world: World, image: bytes) -> tuple[int, int]:
    """cuModuleLoadData: the answer and the module."""
    module = c_void_p()
    code = world.driver.cuModuleLoadData(byref(module), create_string_buffer(image))
    return code, module.value or 0


@contextmanager
def loaded(world: World, image: bytes = PTX) -> Iterator[int]:
    """A module, for the block."""
    code, module = load(world, image)
    world.must("cuModuleLoadData", code)
    yield module
    world.must("cuModuleUnload", world.driver.cuModuleUnload(module))


@contextmanager
def library(world: World, image: bytes = PTX) -> Iterator[int]:
    """A library, for the block."""
    made = c_void_p()
    code = world.driver.cuLibraryLoadData(byref(made), create_string_buffer(image), None, None, 0, None, None, 0)
    world.must("cuLibraryLoadData", code)
    yield made.value or 0
    world.must("cuLibraryUnload", world.driver.cuLibraryUnload(made))


def function(world: World, module: int, name: str) -> int:
    """cuModuleGetFunction."""
    found = c_void_p()
    world.must("cuModuleGetFunction", world.driver.cuModuleGetFunction(byref(found), module, name.encode()))
    return found.value or 0


def variable(world: World, module: int, name: str) -> tuple[int, int]:
    """cuModuleGetGlobal: address and size."""
    address, size = c_uint64(), c_size_t()
    code = world.driver.cuModuleGetGlobal(byref(address), byref(size), module, name.encode())
    world.must("cuModuleGetGlobal", code)
    return address.value, size.value


def attribute(world: World, kernel: int, which: int) -> int:
    """cuFuncGetAttribute."""
    value = c_int(-77)
    world.must("cuFuncGetAttribute", world.driver.cuFuncGetAttribute(byref(value), which, kernel))
    return value.value


def parameters_of(world: World, kernel: int) -> list[tuple[int, int]]:
    """The offset and size of each parameter, by cuFuncGetParamInfo."""
    found = []
    offset, size = c_size_t(), c_size_t()
    while world.driver.cuFuncGetParamInfo(kernel, len(found), byref(offset), byref(size)) == 0:
        found.append((offset.value, size.value))
    return found


def name_of(world: World, kernel: int) -> str:
    """cuFuncGetName."""
    name = c_char_p()
    world.must("cuFuncGetName", world.driver.cuFuncGetName(byref(name), kernel))
    return (name.value or b"").decode()


def launch(
    world: World,
    kernel: int,
    parameters: Parameters | None = None,
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    shared: int = 0,
    stream: int | None = None,
) -> int:
    """cuLaunchKernel with a list of pointers."""
    pointers = parameters.pointers if parameters else None
    return world.driver.cuLaunchKernel(kernel, *grid, *block, shared, stream, pointers, None)
