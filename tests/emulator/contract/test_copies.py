"""Copies and fills of rectangles and boxes, batches of copies, and pitched memory, against a model of plain bytes."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, c_uint64
from typing import TYPE_CHECKING

import pytest

from helpers.abi_copies import (
    DEVICE_TYPE,
    HOST_TYPE,
    OPERAND_ARRAY,
    OPERAND_POINTER,
    ORDER_ANY,
    ORDER_DURING_CALL,
    ORDER_STREAM,
    UNIFIED_TYPE,
    BatchCopy,
    CopyAttributes,
    Operand,
    box,
    rectangle,
)
from helpers.abi_types import LEGACY_STREAM, Result

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

SIZE = 4096

both_profiles = pytest.mark.parametrize(
    "device_config",
    [{"memory": "64MiB", "profile": "strict"}, {"memory": "64MiB", "profile": "nvidia"}],
    ids=["strict", "nvidia"],
    indirect=True,
)


def pattern(size: int = SIZE) -> bytes:
    return bytes(i * 7 % 251 for i in range(size))


def filled(world: World, data: bytes) -> int:
    """Device memory with these bytes."""
    address = world.new_allocation(len(data))
    world.must("cuMemcpyHtoD", world.write(address, data))
    return address


def contents(world: World, address: int, size: int = SIZE) -> bytes:
    world.must("cuCtxSynchronize", world.driver.cuCtxSynchronize())
    code, data = world.read(address, size)
    world.must("cuMemcpyDtoH", code)
    return data


def copied(target: bytes, source: bytes, rows: list[tuple[int, int, int]]) -> bytes:
    """The model: rows of (destination offset, source offset, width)."""
    result = bytearray(target)
    for to, start, width in rows:
        result[to : to + width] = source[start : start + width]
    return bytes(result)


@both_profiles
@pytest.mark.parametrize("function", ["cuMemcpy2D", "cuMemcpy2DUnaligned", "cuMemcpy2DAsync"])
def test_a_rectangle_is_copied_between_all_kinds_of_memory(world: World, function: str, expect: Expectations) -> None:
    data, host = pattern(), ctypes.create_string_buffer(SIZE)
    source, target = filled(world, data), filled(world, bytes(SIZE))
    stream = world.new_stream()
    call = getattr(world.driver, function)
    arguments = (stream,) if function.endswith("Async") else ()
    rows = [(5 + (y + 2) * 100, 3 + (y + 1) * 64, 40) for y in range(10)]
    for name, to, start in (
        ("device to device", (DEVICE_TYPE, target, 100), (DEVICE_TYPE, source, 64)),
        ("unified to unified", (UNIFIED_TYPE, target, 100), (UNIFIED_TYPE, source, 64)),
        ("device to host", (HOST_TYPE, ctypes.addressof(host), 100), (DEVICE_TYPE, source, 64)),
    ):
        copy = rectangle(to, start, 40, 10, dst_x=5, dst_y=2, src_x=3, src_y=1)
        expect(name, call(byref(copy), *arguments), Result.SUCCESS, "D")
        world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
        got = host.raw if name == "device to host" else contents(world, target)
        expect.equal(f"{name}: the bytes", got, copied(bytes(SIZE), data, rows), "D")
    pageable = ctypes.create_string_buffer(data, SIZE)
    copy = rectangle((DEVICE_TYPE, target, 64), (HOST_TYPE, ctypes.addressof(pageable), 64), 64, 64)
    expect("host to device", call(byref(copy), *arguments), Result.SUCCESS, "D")
    ctypes.memset(pageable, 0, SIZE)  # the program may change pageable memory after the call
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
    expect.equal("host to device: the bytes", contents(world, target), data, "D")


@both_profiles
def test_an_empty_rectangle_copies_nothing(world: World, expect: Expectations) -> None:
    address = filled(world, bytes(SIZE))
    for width, height in ((0, 4), (4, 0)):
        copy = rectangle((DEVICE_TYPE, address, 64), (DEVICE_TYPE, address, 64), width, height)
        expect(f"{width} x {height}", world.driver.cuMemcpy2D(byref(copy)), Result.SUCCESS, "I")


@both_profiles
def test_wrong_rectangles_are_refused(world: World, expect: Expectations) -> None:
    source, target = filled(world, pattern()), filled(world, bytes(SIZE))
    good_to, good_from = (DEVICE_TYPE, target, 64), (DEVICE_TYPE, source, 64)
    with expect.no_effect(world, "D"):
        for name, copy in {
            "a pitch below the width": rectangle((DEVICE_TYPE, target, 39), good_from, 40, 4),
            "a pitch below x and width": rectangle(good_to, good_from, 40, 4, src_x=25),
            "the rows go on behind the end": rectangle(good_to, good_from, 64, 65),
            "y is behind the end": rectangle(good_to, good_from, 1, 1, dst_y=1 << 60),
            "the largest y": rectangle(good_to, good_from, 1, 1, dst_y=(1 << 64) - 1),
            "a pitch above the largest": rectangle((DEVICE_TYPE, target, 1 << 31), good_from, 8, 1),
            "memory type 0": rectangle((0, target, 64), good_from, 8, 8),
            "memory type 9": rectangle((9, target, 64), good_from, 8, 8),
            "device memory as host memory": rectangle((HOST_TYPE, target, 64), good_from, 8, 8),
            "NULL": rectangle((DEVICE_TYPE, 0, 64), good_from, 8, 8),
        }.items():
            expect(name, world.driver.cuMemcpy2D(byref(copy)), Result.INVALID_VALUE, "D")
        expect("no parameters", world.driver.cuMemcpy2D(None), Result.INVALID_VALUE, "D")
    expect.equal("the bytes", contents(world, target), bytes(SIZE), "D")


@both_profiles
@pytest.mark.parametrize("function", ["cuMemcpy3D", "cuMemcpy3DAsync", "cuMemcpy3DPeer", "cuMemcpy3DPeerAsync"])
def test_a_box_is_copied(world: World, function: str, expect: Expectations) -> None:
    data = pattern()
    source, target, stream = filled(world, data), filled(world, bytes(SIZE)), world.new_stream()
    copy = box(
        (DEVICE_TYPE, target, 32, 10),
        (DEVICE_TYPE, source, 20, 8),
        (12, 5, 3),
        dst_x=2,
        dst_y=1,
        dst_z=1,
        src_y=3,
        src_z=2,
    )
    if "Peer" in function:
        copy.src_context = copy.dst_context = world.contexts[world.device]
    arguments = (stream,) if function.endswith("Async") else ()
    expect(function, getattr(world.driver, function)(byref(copy), *arguments), Result.SUCCESS, "D")
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
    rows = [(2 + (1 + y) * 32 + (1 + z) * 320, (3 + y) * 20 + (2 + z) * 160, 12) for y in range(5) for z in range(3)]
    expect.equal("the bytes", contents(world, target), copied(bytes(SIZE), data, rows), "D")


@both_profiles
def test_wrong_boxes_are_refused(world: World, expect: Expectations) -> None:
    source, target = filled(world, pattern()), filled(world, bytes(SIZE))
    to, start = (DEVICE_TYPE, target, 32, 8), (DEVICE_TYPE, source, 32, 8)
    reserved = box(to, start, (8, 8, 2))
    reserved.src_context = 1
    with expect.no_effect(world, "D"):
        for name, copy in {
            "more rows than the height": box(to, (DEVICE_TYPE, source, 32, 7), (8, 8, 2)),
            "y and rows above the height": box(to, start, (8, 8, 2), src_y=1),
            "behind the end": box(to, start, (32, 8, 17)),
            "the largest z": box(to, start, (8, 8, 2), dst_z=(1 << 64) - 1),
            "a level of detail": box(to, start, (8, 8, 2), src_lod=1),
            "a reserved field": reserved,
        }.items():
            expect(name, world.driver.cuMemcpy3D(byref(copy)), Result.INVALID_VALUE, "D")
        peer = box(to, start, (8, 8, 2))
        expect("no contexts", world.driver.cuMemcpy3DPeer(byref(peer)), Result.INVALID_CONTEXT, "D")


@both_profiles
@pytest.mark.parametrize(("bits", "value"), [(8, 0xAB), (16, 0xABCD), (32, 0xABCD1234)])
def test_a_rectangle_is_filled(world: World, bits: int, value: int, expect: Expectations) -> None:
    element, stream = bits // 8, world.new_stream()
    for asynchronous in (False, True):
        target = filled(world, bytes(SIZE))
        arguments = (stream,) if asynchronous else ()
        call = getattr(world.driver, f"cuMemsetD2D{bits}" + ("Async" if asynchronous else ""))
        expect("fill", call(target + 8, 64, value, 5, 3, *arguments), Result.SUCCESS, "D")
        world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
        row = value.to_bytes(element, "little") * 5
        rows = [(8 + y * 64, 0, len(row)) for y in range(3)]
        expect.equal("the bytes", contents(world, target), copied(bytes(SIZE), row, rows), "D")
        with expect.no_effect(world, "D"):
            expect(
                "a pitch below the row", call(target, 4 * element, value, 5, 3, *arguments), Result.INVALID_VALUE, "D"
            )
            expect("behind the end", call(target, 64, value, 5, 65, *arguments), Result.INVALID_VALUE, "D")
            if element > 1:
                expect("an odd pitch", call(target, 65, value, 5, 3, *arguments), Result.INVALID_VALUE, "D")
                expect("an odd address", call(target + 1, 64, value, 5, 3, *arguments), Result.INVALID_VALUE, "D")
        expect("no rows", call(target, 64, value, 5, 0, *arguments), Result.SUCCESS, "I")


@both_profiles
def test_pitched_memory_has_room_for_all_rows(world: World, expect: Expectations) -> None:
    address, pitch = c_uint64(77), c_size_t(77)
    allocate = world.driver.cuMemAllocPitch
    with expect.no_effect(world, "D"):
        for what, width, height, element in (
            ("no width", 0, 4, 4),
            ("no height", 4, 0, 4),
            ("elements of 3 bytes", 12, 4, 3),
        ):
            code = allocate(byref(address), byref(pitch), width, height, element)
            expect(what, code, Result.INVALID_VALUE, "D")
        code = allocate(byref(address), byref(pitch), 1 << 40, 1 << 40, 4)
        expect("too much", code, Result.OUT_OF_MEMORY, "D")
    expect.equal("the out-parameters", (address.value, pitch.value), (77, 77), "I")
    expect("100 rows", allocate(byref(address), byref(pitch), 1000, 100, 4), Result.SUCCESS, "D")
    world.allocations.append(address.value)
    expect.that("the pitch", pitch.value >= 1000 and pitch.value % 256 == 0, "D")
    code = world.driver.cuMemsetD2D8(address.value, pitch.value, 1, 1000, 100)
    expect("a fill of all rows", code, Result.SUCCESS, "D")


def attributes(*orders: int, flags: int = 0) -> ctypes.Array[CopyAttributes]:
    return (CopyAttributes * len(orders))(*[CopyAttributes(order=order, flags=flags) for order in orders])


def lines(*numbers: int) -> ctypes.Array[c_size_t]:
    return (c_size_t * max(1, len(numbers)))(*numbers)


def addresses(*numbers: int) -> ctypes.Array[c_uint64]:
    return (c_uint64 * max(1, len(numbers)))(*numbers)


@both_profiles
def test_a_batch_copies_all_its_lines(world: World, expect: Expectations) -> None:
    data, stream = pattern(), world.new_stream()
    source, target = filled(world, data), filled(world, bytes(SIZE))
    pageable = ctypes.create_string_buffer(data, SIZE)
    to = addresses(target, target + 1000, target + 2000)
    start = addresses(source + 10, ctypes.addressof(pageable), source)
    code = world.driver.cuMemcpyBatchAsync(
        to, start, lines(100, 200, 300), 3, attributes(ORDER_STREAM, ORDER_DURING_CALL), lines(0, 1), 2, stream
    )
    expect("three lines", code, Result.SUCCESS, "D")
    ctypes.memset(pageable, 0, SIZE)
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
    expected = copied(bytes(SIZE), data, [(0, 10, 100), (1000, 0, 200), (2000, 0, 300)])
    expect.equal("the bytes", contents(world, target), expected, "D")
    back = ctypes.create_string_buffer(100)
    failing = c_size_t(77)
    code = world.driver.cuMemcpyBatchAsync_v1(
        addresses(ctypes.addressof(back)),
        addresses(target),
        lines(100),
        1,
        attributes(ORDER_ANY),
        lines(0),
        1,
        byref(failing),
        stream,
    )
    expect("the first version, to the host", code, Result.SUCCESS, "D")
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
    expect.equal("the bytes", back.raw, data[10:110], "D")


@both_profiles
def test_a_wrong_batch_copies_nothing(world: World, expect: Expectations) -> None:
    stream = world.new_stream()
    source, target = filled(world, pattern()), filled(world, bytes(SIZE))
    to, start = addresses(target, target + 1000), addresses(source, source)
    call, good = world.driver.cuMemcpyBatchAsync, attributes(ORDER_STREAM)
    with expect.no_effect(world, "D"):
        for name, arguments in {
            "no copies": (to, start, lines(1, 1), 0, good, lines(0), 1, stream),
            "no attributes": (to, start, lines(1, 1), 2, good, lines(0), 0, stream),
            "more attributes than copies": (to, start, lines(1), 1, attributes(1, 1), lines(0, 1), 2, stream),
            "the first index is 1": (to, start, lines(1, 1), 2, good, lines(1), 1, stream),
            "an order of 0": (to, start, lines(1, 1), 2, attributes(0), lines(0), 1, stream),
            "unknown flags": (to, start, lines(1, 1), 2, attributes(1, flags=2), lines(0), 1, stream),
            "the second is too long": (to, start, lines(1, SIZE), 2, good, lines(0), 1, stream),
            "the second has no bytes": (to, start, lines(1, 0), 2, good, lines(0), 1, stream),
            "the legacy stream": (to, start, lines(1, 1), 2, good, lines(0), 1, LEGACY_STREAM),
            "the NULL stream": (to, start, lines(1, 1), 2, good, lines(0), 1, None),
        }.items():
            expect(name, call(*arguments), Result.INVALID_VALUE, "D")
        first = world.driver.cuMemcpyBatchAsync_v1
        for name, sizes, order, index in (
            ("the second is too long", lines(1, SIZE), ORDER_STREAM, 1),
            ("bad attributes", lines(1, 1), 9, (1 << 64) - 1),
        ):
            failing = c_size_t(77)
            code = first(to, start, sizes, 2, attributes(order), lines(0), 1, byref(failing), stream)
            expect(name, code, Result.INVALID_VALUE, "D")
            expect.equal(f"{name}: the index", failing.value, index, "D")
    expect.equal("the bytes", contents(world, target), bytes(SIZE), "D")


def boxes(*copies: BatchCopy) -> ctypes.Array[BatchCopy]:
    return (BatchCopy * len(copies))(*copies)


@both_profiles
def test_a_batch_copies_all_its_boxes(world: World, expect: Expectations) -> None:
    data, stream = pattern(), world.new_stream()
    source, target = filled(world, data), filled(world, bytes(SIZE))
    spaced = BatchCopy(
        src=Operand(type=OPERAND_POINTER, address=source, row_length=16, layer_height=4),
        dst=Operand(type=OPERAND_POINTER, address=target + 7),
        width=10,
        height=3,
        depth=2,
        order=ORDER_STREAM,
    )
    line = BatchCopy(
        src=Operand(type=OPERAND_POINTER, address=source + 5),
        dst=Operand(type=OPERAND_POINTER, address=target + 2000),
        width=300,
        height=1,
        depth=1,
        order=ORDER_ANY,
        flags=1,
    )
    code = world.driver.cuMemcpy3DBatchAsync(2, boxes(spaced, line), 0, stream)
    expect("two boxes", code, Result.SUCCESS, "D")
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
    rows = [(7 + y * 10 + z * 30, y * 16 + z * 64, 10) for y in range(3) for z in range(2)]
    expect.equal("the bytes", contents(world, target), copied(bytes(SIZE), data, [*rows, (2000, 5, 300)]), "D")

    with expect.no_effect(world, "D"):
        for name, change in {
            "no width": {"width": 0},
            "no depth": {"depth": 0},
            "an order of 0": {"order": 0},
            "flags": {"flags": 4},
            "operand type 0": {"src": Operand(type=0, address=source)},
            "a short row": {"src": Operand(type=OPERAND_POINTER, address=source, row_length=9)},
            "a low layer": {"dst": Operand(type=OPERAND_POINTER, address=target, layer_height=2)},
        }.items():
            wrong = BatchCopy.from_buffer_copy(spaced)
            for field, value in change.items():
                setattr(wrong, field, value)
            code = world.driver.cuMemcpy3DBatchAsync(2, boxes(line, wrong), 0, stream)
            expect(name, code, Result.INVALID_VALUE, "D")
            failing = c_size_t(77)
            code = world.driver.cuMemcpy3DBatchAsync_v1(2, boxes(line, wrong), byref(failing), 0, stream)
            expect(name, code, Result.INVALID_VALUE, "D")
            expect.equal(f"{name}: the index", failing.value, 1, "D")
        expect("flags", world.driver.cuMemcpy3DBatchAsync(1, boxes(line), 1, stream), Result.INVALID_VALUE, "D")
        expect("the NULL stream", world.driver.cuMemcpy3DBatchAsync(1, boxes(line), 0, None), Result.INVALID_VALUE, "D")
        array = BatchCopy.from_buffer_copy(line)
        array.src = Operand(type=OPERAND_ARRAY, address=4096)
        code = world.driver.cuMemcpy3DBatchAsync(1, boxes(array), 0, stream)
        expect.that("an array that does not exist is refused", code != Result.SUCCESS, "D")
