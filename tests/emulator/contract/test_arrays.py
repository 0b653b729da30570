"""Arrays, mipmapped arrays, texture and surface objects, and copies between arrays and linear memory."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_uint64, c_void_p
from typing import TYPE_CHECKING

import pytest

from helpers.abi_arrays import (
    CUBEMAP,
    FLOAT,
    LAYERED,
    RESOURCE_ARRAY,
    RESOURCE_LINEAR,
    RESOURCE_MIPMAP,
    RESOURCE_PITCH2D,
    SIGNED_INT8,
    SURFACE,
    UNSIGNED_INT8,
    ArrayDescriptor,
    ResourceDescriptor,
    TextureDescriptor,
    ViewDescriptor,
)
from helpers.abi_copies import (
    ARRAY_TYPE,
    DEVICE_TYPE,
    HOST_TYPE,
    OPERAND_ARRAY,
    OPERAND_POINTER,
    ORDER_STREAM,
    ArrayBatchCopy,
    ArrayOperand,
    Operand,
    box,
    rectangle,
)
from helpers.abi_types import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

both_profiles = pytest.mark.parametrize(
    "device_config",
    [{"memory": "64MiB", "profile": "strict"}, {"memory": "64MiB", "profile": "nvidia"}],
    ids=["strict", "nvidia"],
    indirect=True,
)


LARGEST_2D = (131072, 65536)
"""The width and the height of attributes 22 and 23."""


@pytest.fixture
def new_array(world: World) -> Iterator[Callable[..., int]]:
    """Makes an array; destroys all at the end of the case."""
    made: list[int] = []

    def make(width: int, height: int = 0, depth: int = 0, *, kind: int = UNSIGNED_INT8, flags: int = 0) -> int:
        array = c_void_p()
        descriptor = ArrayDescriptor(width=width, height=height, depth=depth, format=kind, channels=1, flags=flags)
        world.must("cuArray3DCreate", world.driver.cuArray3DCreate(byref(array), byref(descriptor)))
        made.append(array.value)
        return array.value

    yield make
    for array in made:
        world.must("cuArrayDestroy", world.driver.cuArrayDestroy(array))


@both_profiles
def test_an_array_keeps_its_descriptor_and_takes_device_memory(world: World, expect: Expectations) -> None:
    array, before = c_void_p(), world.free_memory()
    given = ArrayDescriptor(width=1000, height=600, depth=2, format=FLOAT, channels=4, flags=SURFACE)
    expect("create", world.driver.cuArray3DCreate(byref(array), byref(given)), Result.SUCCESS, "D")
    expect.that("it takes memory", before - world.free_memory() >= 1000 * 600 * 2 * 16, "D")
    got = ArrayDescriptor()
    expect("describe", world.driver.cuArray3DGetDescriptor(byref(got), array), Result.SUCCESS, "D")
    expect.equal("the descriptor", bytes(got), bytes(given), "D")
    expect("destroy", world.driver.cuArrayDestroy(array), Result.SUCCESS, "D")
    expect.equal("free memory", world.free_memory(), before, "D")
    expect("destroy again", world.driver.cuArrayDestroy(array), Result.INVALID_HANDLE, "D")
    expect("describe again", world.driver.cuArray3DGetDescriptor(byref(got), array), Result.INVALID_HANDLE, "D")


@both_profiles
def test_wrong_arrays_are_refused(world: World, expect: Expectations) -> None:
    create, out = world.driver.cuArray3DCreate, c_void_p(77)
    with expect.no_effect(world, "D"):
        for what, fields in {
            "no width": {"width": 0},
            "3 channels": {"channels": 3},
            "no channels": {"channels": 0},
            "format 0": {"format": 0},
            "unknown flags": {"flags": 1 << 20},
            "a depth without a height": {"height": 0, "depth": 2},
            "layers without a number": {"flags": LAYERED},
            "a cubemap that is not square": {"width": 8, "height": 4, "depth": 6, "flags": CUBEMAP},
            "a cubemap of 5 faces": {"width": 8, "height": 8, "depth": 5, "flags": CUBEMAP},
            "a width above the largest": {"width": LARGEST_2D[0] + 1},
            "a height above the largest": {"height": LARGEST_2D[1] + 1},
        }.items():
            wrong = ArrayDescriptor(width=8, height=8, depth=0, format=FLOAT, channels=1)
            for name, value in fields.items():
                setattr(wrong, name, value)
            expect(what, create(byref(out), byref(wrong)), Result.INVALID_VALUE, "D")
        large = ArrayDescriptor(width=LARGEST_2D[0], height=LARGEST_2D[1], depth=0, format=FLOAT, channels=4)
        expect("too large", create(byref(out), byref(large)), Result.OUT_OF_MEMORY, "D")
        expect("NULL", create(None, byref(large)), Result.INVALID_VALUE, "D")
        expect("no descriptor", create(byref(out), None), Result.INVALID_VALUE, "D")
    expect.equal("the out-parameter", out.value, 77, "I")


@both_profiles
def test_rows_and_boxes_are_copied_to_an_array_and_back(
    world: World, new_array: Callable[..., int], expect: Expectations
) -> None:
    data = bytes(i * 3 % 251 for i in range(4 * 6 * 8))
    array, back = new_array(8, 6, 4), ctypes.create_string_buffer(len(data))
    source = ctypes.create_string_buffer(data, len(data))
    copy = box((ARRAY_TYPE, 0, 0, 0), (HOST_TYPE, ctypes.addressof(source), 8, 6), (8, 6, 4))
    copy.dst_array = array
    expect("3D to the array", world.driver.cuMemcpy3D(byref(copy)), Result.SUCCESS, "D")
    copy = box((HOST_TYPE, ctypes.addressof(back), 8, 6), (ARRAY_TYPE, 0, 0, 0), (8, 6, 4))
    copy.src_array = array
    expect("3D back", world.driver.cuMemcpy3D(byref(copy)), Result.SUCCESS, "D")
    expect.equal("the bytes", back.raw, data, "D")
    part = rectangle((HOST_TYPE, ctypes.addressof(back), 3), (ARRAY_TYPE, 0, 0), 3, 2, src_x=4, src_y=1)
    part.src_array = array
    expect("2D of a part", world.driver.cuMemcpy2D(byref(part)), Result.SUCCESS, "D")
    expect.equal("its bytes", back.raw[:6], data[12:15] + data[20:23], "D")
    with expect.no_effect(world, "D"):
        for field, value in {"src_x": 6, "src_y": 5, "width": 5, "height": 7}.items():
            wrong = type(part).from_buffer_copy(part)
            setattr(wrong, field, value)
            wrong.dst_pitch = 16
            expect(f"{field} {value}", world.driver.cuMemcpy2D(byref(wrong)), Result.INVALID_VALUE, "D")
        part.src_array = 4096
        expect("no array", world.driver.cuMemcpy2D(byref(part)), Result.INVALID_HANDLE, "I")


@both_profiles
def test_lines_are_copied_between_arrays_and_all_kinds_of_memory(
    world: World, new_array: Callable[..., int], expect: Expectations
) -> None:
    driver, data = world.driver, bytes(range(64))
    one, other, device = new_array(64), new_array(64, kind=SIGNED_INT8), world.new_allocation(64)
    host, stream = ctypes.create_string_buffer(data, 64), world.new_stream()
    expect("HtoA", driver.cuMemcpyHtoA(one, 0, host, 64), Result.SUCCESS, "D")
    expect("AtoA", driver.cuMemcpyAtoA(other, 8, one, 16, 32), Result.SUCCESS, "D")
    expect("AtoD", driver.cuMemcpyAtoD(device, other, 8, 32), Result.SUCCESS, "D")
    expect("DtoA", driver.cuMemcpyDtoA(one, 32, device, 32), Result.SUCCESS, "D")
    back = ctypes.create_string_buffer(64)
    expect("AtoH", driver.cuMemcpyAtoH(back, one, 0, 64), Result.SUCCESS, "D")
    expect.equal("the bytes", back.raw, data[:32] + data[16:48], "D")
    expect("HtoAAsync", driver.cuMemcpyHtoAAsync(one, 0, host, 64, stream), Result.SUCCESS, "D")
    expect("AtoHAsync", driver.cuMemcpyAtoHAsync(back, one, 0, 64, stream), Result.SUCCESS, "D")
    world.must("cuStreamSynchronize", driver.cuStreamSynchronize(stream))
    expect.equal("the bytes", back.raw, data, "D")
    with expect.no_effect(world, "D"):
        expect("behind the end", driver.cuMemcpyAtoH(back, one, 1, 64), Result.INVALID_VALUE, "D")
        expect("no array", driver.cuMemcpyAtoH(back, 4096, 0, 1), Result.INVALID_HANDLE, "I")


@both_profiles
def test_a_batch_copies_elements_of_arrays(world: World, new_array: Callable[..., int], expect: Expectations) -> None:
    data = bytes(range(96))
    array, device, stream = new_array(4, 3, kind=FLOAT), world.new_allocation(96), world.new_stream()
    world.must("cuMemcpyHtoD", world.write(device, data))
    copy = ArrayBatchCopy(
        src=Operand(type=OPERAND_POINTER, address=device, row_length=8),
        dst=ArrayOperand(type=OPERAND_ARRAY, array=array, x=1, y=1),
        width=3,
        height=2,
        depth=1,
        order=ORDER_STREAM,
    )
    call = world.driver.cuMemcpy3DBatchAsync
    expect("a batch", call(1, ctypes.cast(byref(copy), c_void_p), 0, stream), Result.SUCCESS, "D")
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
    back = ctypes.create_string_buffer(24)
    part = rectangle((HOST_TYPE, ctypes.addressof(back), 12), (ARRAY_TYPE, 0, 0), 12, 2, src_x=4, src_y=1)
    part.src_array = array
    world.must("cuMemcpy2D", world.driver.cuMemcpy2D(byref(part)))
    expect.equal("the bytes", back.raw, data[:12] + data[32:44], "D")
    copy.dst.x = 2
    with expect.no_effect(world, "D"):
        code = call(1, ctypes.cast(byref(copy), c_void_p), 0, stream)
        expect("behind the end of a row", code, Result.INVALID_VALUE, "D")


@both_profiles
def test_a_mipmapped_array_has_levels_of_half_the_size(world: World, expect: Expectations) -> None:
    driver, mipmap, before = world.driver, c_void_p(), world.free_memory()
    given = ArrayDescriptor(width=16, height=4, depth=0, format=FLOAT, channels=1)
    expect("no level", driver.cuMipmappedArrayCreate(byref(mipmap), byref(given), 0), Result.INVALID_VALUE, "D")
    expect("create", driver.cuMipmappedArrayCreate(byref(mipmap), byref(given), 9), Result.SUCCESS, "D")
    sizes, level = [], c_void_p()
    while driver.cuMipmappedArrayGetLevel(byref(level), mipmap, len(sizes)) == 0:
        got = ArrayDescriptor()
        world.must("cuArray3DGetDescriptor", driver.cuArray3DGetDescriptor(byref(got), level))
        sizes.append((got.width, got.height, got.depth))
    expect.equal("the levels", sizes, [(16, 4, 0), (8, 2, 0), (4, 1, 0), (2, 1, 0), (1, 1, 0)], "D")
    expect("destroy a level", driver.cuArrayDestroy(level), Result.INVALID_HANDLE, "I")
    expect("destroy", driver.cuMipmappedArrayDestroy(mipmap), Result.SUCCESS, "D")
    expect.equal("free memory", world.free_memory(), before, "D")
    expect("again", driver.cuMipmappedArrayDestroy(mipmap), Result.INVALID_HANDLE, "D")
    expect("its level", driver.cuArray3DGetDescriptor(byref(got), level), Result.INVALID_HANDLE, "D")


@both_profiles
def test_textures_and_surfaces_keep_their_descriptions(
    world: World, new_array: Callable[..., int], expect: Expectations
) -> None:
    driver, memory = world.driver, world.new_allocation(4096)
    plain, writable = new_array(8, 8), new_array(8, 8, flags=SURFACE)
    linear = ResourceDescriptor(type=RESOURCE_LINEAR)
    linear.linear.address, linear.linear.format, linear.linear.channels, linear.linear.size = memory, FLOAT, 1, 4096
    pitched = ResourceDescriptor(type=RESOURCE_PITCH2D)
    pitched.pitched.address, pitched.pitched.format, pitched.pitched.channels = memory, FLOAT, 1
    pitched.pitched.width, pitched.pitched.height, pitched.pitched.pitch = 16, 8, 512
    of_array = ResourceDescriptor(type=RESOURCE_ARRAY, handle=plain)
    how = TextureDescriptor(max_anisotropy=4)
    for resource in (of_array, linear, pitched):
        texture, got, got_how = c_uint64(), ResourceDescriptor(), TextureDescriptor()
        code = driver.cuTexObjectCreate(byref(texture), byref(resource), byref(how), None)
        expect(f"a texture of type {resource.type}", code, Result.SUCCESS, "D")
        world.must("cuTexObjectGetResourceDesc", driver.cuTexObjectGetResourceDesc(byref(got), texture))
        world.must("cuTexObjectGetTextureDesc", driver.cuTexObjectGetTextureDesc(byref(got_how), texture))
        expect.equal("the resource", bytes(got), bytes(resource), "D")
        expect.equal("the texture", bytes(got_how), bytes(how), "D")
        view = ViewDescriptor()
        code = driver.cuTexObjectGetResourceViewDesc(byref(view), texture)
        expect("a view that was not given", code, Result.INVALID_VALUE, "D")
        expect("destroy", driver.cuTexObjectDestroy(texture), Result.SUCCESS, "D")
        expect("destroy again", driver.cuTexObjectDestroy(texture), Result.INVALID_HANDLE, "I")
    surface = c_uint64()
    of_writable = ResourceDescriptor(type=RESOURCE_ARRAY, handle=writable)
    expect("a surface", driver.cuSurfObjectCreate(byref(surface), byref(of_writable)), Result.SUCCESS, "D")
    got = ResourceDescriptor()
    world.must("cuSurfObjectGetResourceDesc", driver.cuSurfObjectGetResourceDesc(byref(got), surface))
    expect.equal("its resource", bytes(got), bytes(of_writable), "D")
    expect("destroy", driver.cuSurfObjectDestroy(surface), Result.SUCCESS, "D")
    with expect.no_effect(world, "D"):
        for what, wrong in {
            "an array without SURFACE_LDST": of_array,
            "linear memory": linear,
        }.items():
            expect(what, driver.cuSurfObjectCreate(byref(surface), byref(wrong)), Result.INVALID_VALUE, "D")
        nothing = ResourceDescriptor(type=RESOURCE_LINEAR)
        of_type_9 = ResourceDescriptor(type=9)
        for what, wrong in {"no memory": nothing, "type 9": of_type_9}.items():
            code = driver.cuTexObjectCreate(byref(surface), byref(wrong), byref(how), None)
            expect(what, code, Result.INVALID_VALUE, "D")
        no_mipmap = ResourceDescriptor(type=RESOURCE_MIPMAP, handle=4096)
        code = driver.cuTexObjectCreate(byref(surface), byref(no_mipmap), byref(how), None)
        expect("no mipmapped array", code, Result.INVALID_HANDLE, "I")
    expect(
        "describe the NULL array",
        driver.cuArray3DGetDescriptor(byref(ArrayDescriptor()), 0),
        Result.INVALID_HANDLE,
        "D",
    )


@both_profiles
def test_a_rectangle_is_copied_from_device_memory_to_an_array(
    world: World, new_array: Callable[..., int], expect: Expectations
) -> None:
    data = bytes(i % 256 for i in range(512))
    device, array = world.new_allocation(512), new_array(8, 4)
    world.must("cuMemcpyHtoD", world.write(device, data))
    copy = rectangle((ARRAY_TYPE, 0, 0), (DEVICE_TYPE, device, 100), 8, 4)
    copy.dst_array = array
    expect("2D", world.driver.cuMemcpy2D(byref(copy)), Result.SUCCESS, "D")
    back = ctypes.create_string_buffer(32)
    expect("AtoH", world.driver.cuMemcpyAtoH(back, array, 0, 32), Result.SUCCESS, "D")
    expect.equal("the bytes", back.raw, b"".join(data[y * 100 : y * 100 + 8] for y in range(4)), "D")
