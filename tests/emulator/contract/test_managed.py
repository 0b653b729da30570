"""Managed memory: allocation, pointers, advice, prefetches, and where its pages count. No numbered case has it.

The rules are those of CUDA's own description of the functions. Where it leaves the place of a page open, they are the
emulator's.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from typing import TYPE_CHECKING

import pytest

from helpers.abi_managed import HOST, ManagedDesk, on
from helpers.abi_types import (
    ADVISE_SET_ACCESSED_BY,
    ADVISE_SET_PREFERRED,
    ADVISE_SET_READ_MOSTLY,
    ADVISE_UNSET_ACCESSED_BY,
    ADVISE_UNSET_PREFERRED,
    ADVISE_UNSET_READ_MOSTLY,
    ATTACH_GLOBAL,
    ATTACH_HOST,
    ATTACH_SINGLE,
    ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
    ATTRIBUTE_DIRECT_MANAGED_ACCESS_FROM_HOST,
    ATTRIBUTE_MANAGED_MEMORY,
    ATTRIBUTE_PAGEABLE_ACCESS,
    ATTRIBUTE_PAGEABLE_ACCESS_BY_HOST_TABLES,
    DEVICE_CPU,
    DEVICE_NONE,
    LEGACY_STREAM,
    LOCATION_DEVICE,
    LOCATION_HOST,
    LOCATION_HOST_NUMA,
    LOCATION_HOST_NUMA_CURRENT,
    LOCATION_NONE,
    POINTER_DEVICE_ORDINAL,
    POINTER_HOST_POINTER,
    POINTER_IS_LEGACY_IPC_CAPABLE,
    POINTER_IS_MANAGED,
    POINTER_MEMORY_TYPE,
    POINTER_RANGE_SIZE,
    POINTER_RANGE_START,
    RANGE_ACCESSED_BY,
    RANGE_LAST_PREFETCH,
    RANGE_LAST_PREFETCH_ID,
    RANGE_LAST_PREFETCH_TYPE,
    RANGE_PREFERRED,
    RANGE_PREFERRED_ID,
    RANGE_PREFERRED_TYPE,
    RANGE_READ_MOSTLY,
    EmulatorRange,
    MemLocation,
    Result,
)

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

MIB = 1 << 20
DEVICE_MEMORY_TYPE = 2

pytestmark = pytest.mark.emulator_only("where the pages of managed memory lie is the emulator's own rule")

both_profiles = pytest.mark.parametrize(
    "device_config",
    [{"memory": "256MiB", "profile": "strict"}, {"memory": "256MiB", "profile": "nvidia"}],
    ids=["strict", "nvidia"],
    indirect=True,
)
two_devices = pytest.mark.parametrize(
    "device_config", [{"devices": 2, "memory": "64MiB", "peers": "none"}], ids=["apart"], indirect=True
)


@pytest.fixture
def managed(world: World) -> ManagedDesk:
    return ManagedDesk(world)


def write(address: int, data: bytes) -> None:
    """As the program's own CPU code does."""
    ctypes.memmove(address, data, len(data))


@both_profiles
def test_an_allocation_has_bytes_for_the_host_and_the_device(
    world: World, managed: ManagedDesk, expect: Expectations
) -> None:
    for size in (1, 4096, 3 * MIB):
        address = managed.new(size)
        write(address, b"x")
        expect.equal("read by a copy", world.read(address, 1), (Result.SUCCESS, b"x"), "D")
        world.must("cuMemsetD8", world.driver.cuMemsetD8(address, ord("y"), size))
        world.must("cuCtxSynchronize", world.driver.cuCtxSynchronize())
        expect.equal("read by the CPU", ctypes.string_at(address, size), b"y" * size, "D")
        expect("cuMemFree", world.free_allocation(address), Result.SUCCESS, "D")
        expect("cuMemFree twice", world.driver.cuMemFree(address), Result.INVALID_VALUE, "D")


@both_profiles
def test_wrong_allocations_are_refused(world: World, expect: Expectations) -> None:
    allocate, address = world.driver.cuMemAllocManaged, c_uint64(77)
    with expect.no_effect(world, "D"):
        expect("NULL", allocate(None, 4096, ATTACH_GLOBAL), Result.INVALID_VALUE, "D")
        expect("0 bytes", allocate(byref(address), 0, ATTACH_GLOBAL), Result.INVALID_VALUE, "D")
        for flags in (0, ATTACH_GLOBAL | ATTACH_HOST, ATTACH_SINGLE, 8):
            expect(f"flags {flags}", allocate(byref(address), 4096, flags), Result.INVALID_VALUE, "D")
        expect("2**62 bytes", allocate(byref(address), 1 << 62, ATTACH_GLOBAL), Result.OUT_OF_MEMORY, "D")
    expect.equal("the out-parameter", address.value, 77, "I")


@both_profiles
def test_a_pointer_says_that_its_memory_is_managed(world: World, managed: ManagedDesk, expect: Expectations) -> None:
    size = 3 * MIB + 17
    address = managed.new(size, ATTACH_HOST)
    inside = address + 4097
    expect.that("IS_MANAGED", managed.is_managed(inside, POINTER_IS_MANAGED), "D")
    expect.equal("MEMORY_TYPE", managed.pointer(inside, POINTER_MEMORY_TYPE), DEVICE_MEMORY_TYPE, "O")
    expect.equal("DEVICE_ORDINAL", managed.pointer(inside, POINTER_DEVICE_ORDINAL), world.device, "D")
    expect.equal("HOST_POINTER", managed.pointer(inside, POINTER_HOST_POINTER, c_uint64), inside, "D")
    expect.equal("RANGE_START", managed.pointer(inside, POINTER_RANGE_START, c_uint64), address, "D")
    expect.equal("RANGE_SIZE", managed.pointer(inside, POINTER_RANGE_SIZE, c_uint64), size, "D")
    expect.that("not for legacy IPC", not managed.is_managed(inside, POINTER_IS_LEGACY_IPC_CAPABLE), "D")
    expect.equal("cuMemGetAddressRange", world.address_range(inside), (Result.SUCCESS, address, size), "D")
    plain = world.new_allocation(4096)
    expect.that("IS_MANAGED of plain memory", not managed.is_managed(plain, POINTER_IS_MANAGED), "D")


def test_the_device_attributes_agree_with_each_other(world: World, expect: Expectations) -> None:
    for attribute, value in {
        ATTRIBUTE_MANAGED_MEMORY: 1,
        ATTRIBUTE_CONCURRENT_MANAGED_ACCESS: 1,
        ATTRIBUTE_PAGEABLE_ACCESS: 0,
        ATTRIBUTE_PAGEABLE_ACCESS_BY_HOST_TABLES: 0,
        ATTRIBUTE_DIRECT_MANAGED_ACCESS_FROM_HOST: 0,
    }.items():
        got = c_int(-1)
        world.must("cuDeviceGetAttribute", world.driver.cuDeviceGetAttribute(byref(got), attribute, world.device))
        expect.equal(f"attribute {attribute}", got.value, value, "D")


@both_profiles
def test_advice_can_be_read_back(world: World, managed: ManagedDesk, expect: Expectations) -> None:
    page, device = world.page, world.device
    address = managed.new(8 * page)
    expect.equal("READ_MOSTLY", managed.attribute(address, 8 * page, RANGE_READ_MOSTLY), [0], "D")
    expect.equal("PREFERRED", managed.attribute(address, 8 * page, RANGE_PREFERRED), [DEVICE_NONE], "D")
    expect.equal("LAST_PREFETCH", managed.attribute(address, 8 * page, RANGE_LAST_PREFETCH), [DEVICE_NONE], "D")
    expect("set", managed.advise(address, 2 * page, ADVISE_SET_READ_MOSTLY), Result.SUCCESS, "D")
    expect.equal("of the pages", managed.attribute(address, 2 * page, RANGE_READ_MOSTLY), [1], "D")
    expect.equal("of one more page", managed.attribute(address, 3 * page, RANGE_READ_MOSTLY), [0], "D")
    expect("unset", managed.advise(address + page, page, ADVISE_UNSET_READ_MOSTLY), Result.SUCCESS, "D")
    expect.equal("of the first page", managed.attribute(address, page, RANGE_READ_MOSTLY), [1], "D")
    expect.equal("of both", managed.attribute(address, 2 * page, RANGE_READ_MOSTLY), [0], "D")

    for location, number, kind, of_kind in (
        (on(device), device, LOCATION_DEVICE, device),
        (HOST, DEVICE_CPU, LOCATION_HOST, 0),
        (MemLocation(type=LOCATION_HOST_NUMA, id=0), DEVICE_CPU, LOCATION_HOST_NUMA, 0),
        (MemLocation(type=LOCATION_HOST_NUMA_CURRENT, id=7), DEVICE_CPU, LOCATION_HOST_NUMA, 0),
    ):
        expect("set", managed.advise(address, 8 * page, ADVISE_SET_PREFERRED, location), Result.SUCCESS, "D")
        got = [
            managed.attribute(address, 8 * page, attribute)[0]
            for attribute in (RANGE_PREFERRED, RANGE_PREFERRED_TYPE, RANGE_PREFERRED_ID)
        ]
        expect.equal(f"the preferred location {location.type}", got, [number, kind, of_kind], "D")
    expect("one byte more", managed.advise(address + 1, 1, ADVISE_UNSET_PREFERRED), Result.SUCCESS, "D")
    expect.equal("its page", managed.attribute(address + 9, 1, RANGE_PREFERRED), [DEVICE_NONE], "D")
    expect.equal("the whole", managed.attribute(address, 8 * page, RANGE_PREFERRED_TYPE), [LOCATION_NONE], "D")

    expect("set", managed.advise(address, 8 * page, ADVISE_SET_ACCESSED_BY, on(device)), Result.SUCCESS, "D")
    expect("set", managed.advise(address, 4 * page, ADVISE_SET_ACCESSED_BY, HOST), Result.SUCCESS, "D")
    of_all = managed.attribute(address, 8 * page, RANGE_ACCESSED_BY, 3)
    expect.equal("of all pages", of_all, [device, DEVICE_NONE, DEVICE_NONE], "D")
    of_half = managed.attribute(address, 4 * page, RANGE_ACCESSED_BY, 2)
    expect.equal("of the first half", sorted(of_half), [DEVICE_CPU, device], "D")
    code = world.driver.cuMemAdvise_v1(address, 8 * page, ADVISE_UNSET_ACCESSED_BY, device)
    expect("unset with the first version", code, Result.SUCCESS, "D")
    expect.equal("then", managed.attribute(address, 8 * page, RANGE_ACCESSED_BY), [DEVICE_NONE], "D")


@both_profiles
def test_a_new_allocation_has_no_advice_of_the_one_before(
    world: World, managed: ManagedDesk, expect: Expectations
) -> None:
    page = world.page
    address = managed.new(page)
    world.must("cuMemAdvise", managed.advise(address, page, ADVISE_SET_READ_MOSTLY))
    world.must("cuMemPrefetchAsync", managed.prefetch(address, page, on(world.device)))
    world.must("cuMemFree", world.free_allocation(address))
    expect.equal("what the device has less", managed.taken(), 0, "D")
    again = managed.new(page)
    expect.equal("the same address", again, address, "I")
    expect.equal("READ_MOSTLY", managed.attribute(again, page, RANGE_READ_MOSTLY), [0], "D")
    expect.equal("LAST_PREFETCH", managed.attribute(again, page, RANGE_LAST_PREFETCH), [DEVICE_NONE], "D")


@both_profiles
def test_wrong_advice_is_refused(world: World, managed: ManagedDesk, expect: Expectations) -> None:
    page = world.page
    address, plain = managed.new(page), world.new_allocation(page)
    with expect.no_effect(world, "D"):
        for what, place, size in (
            ("0 bytes", address, 0),
            ("plain memory", plain, page),
            ("one byte too many", address, page + 1),
            ("memory of malloc", ctypes.addressof(c_int(1)), 4),
            ("a range that wraps around", address, (1 << 64) - 1),
        ):
            expect(what, managed.advise(place, size, ADVISE_SET_READ_MOSTLY), Result.INVALID_VALUE, "D")
            expect(what, managed.prefetch(place, size, HOST), Result.INVALID_VALUE, "D")
            value = c_int(77)
            code = world.driver.cuMemRangeGetAttribute(byref(value), 4, RANGE_READ_MOSTLY, place, size)
            expect(what, code, Result.INVALID_VALUE, "D")
        for advice in (0, 7):
            expect(f"advice {advice}", managed.advise(address, page, advice), Result.INVALID_VALUE, "D")
        nowhere = MemLocation(type=LOCATION_NONE, id=0)
        no_node = MemLocation(type=LOCATION_HOST_NUMA, id=9)
        for advice in (ADVISE_SET_PREFERRED, ADVISE_SET_ACCESSED_BY, ADVISE_SET_READ_MOSTLY):
            expect("no place", managed.advise(address, page, advice, nowhere), Result.INVALID_VALUE, "D/O")
            code = managed.advise(address, page, advice, on(world.count))
            expect("a device that does not exist", code, Result.INVALID_DEVICE, "D")
        expect("node 9", managed.advise(address, page, ADVISE_SET_PREFERRED, no_node), Result.INVALID_VALUE, "D")
        node = MemLocation(type=LOCATION_HOST_NUMA, id=0)
        expect("by a node", managed.advise(address, page, ADVISE_SET_ACCESSED_BY, node), Result.INVALID_VALUE, "D")
        expect("to nowhere", managed.prefetch(address, page, nowhere), Result.INVALID_VALUE, "D")
        expect("to no device", managed.prefetch(address, page, on(world.count)), Result.INVALID_DEVICE, "D")
        code = world.driver.cuMemPrefetchAsync(address, page, HOST, 1, None)
        expect("flags 1", code, Result.INVALID_VALUE, "D")
        code = world.driver.cuMemPrefetchAsync_v1(address, page, DEVICE_NONE, None)
        expect("the first version, to no device", code, Result.INVALID_DEVICE, "D")


@both_profiles
def test_wrong_questions_about_ranges_are_refused(world: World, managed: ManagedDesk, expect: Expectations) -> None:
    page = world.page
    address = managed.new(page)
    value = (c_int * 2)(77, 77)
    ask = world.driver.cuMemRangeGetAttribute
    expect("NULL", ask(None, 4, RANGE_READ_MOSTLY, address, page), Result.INVALID_VALUE, "D")
    for attribute in (RANGE_READ_MOSTLY, RANGE_PREFERRED, RANGE_LAST_PREFETCH, RANGE_PREFERRED_TYPE):
        for size in (0, 3, 8):
            code = ask(value, size, attribute, address, page)
            expect(f"attribute {attribute} in {size} bytes", code, Result.INVALID_VALUE, "D")
    for size in (0, 6):
        expect(f"a list of {size} bytes", ask(value, size, RANGE_ACCESSED_BY, address, page), Result.INVALID_VALUE, "D")
    for attribute in (0, 9):
        expect(f"attribute {attribute}", ask(value, 4, attribute, address, page), Result.INVALID_VALUE, "D")

    attributes = (c_int * 2)(RANGE_READ_MOSTLY, RANGE_LAST_PREFETCH)
    sizes = (c_size_t * 2)(4, 4)
    data = (c_void_p * 2)(ctypes.addressof(value), ctypes.addressof(value) + 4)
    several = world.driver.cuMemRangeGetAttributes
    expect("no question", several(data, sizes, attributes, 0, address, page), Result.INVALID_VALUE, "D")
    wrong = (c_size_t * 2)(4, 5)
    expect("a bad second one", several(data, wrong, attributes, 2, address, page), Result.INVALID_VALUE, "D")
    expect.equal("the out-parameters", list(value), [77, 77], "I")
    expect("two questions", several(data, sizes, attributes, 2, address, page), Result.SUCCESS, "D")
    expect.equal("the two values", list(value), [0, DEVICE_NONE], "D")


@both_profiles
def test_a_prefetch_counts_on_the_device_from_the_call_on(
    world: World, managed: ManagedDesk, expect: Expectations
) -> None:
    stream, device = world.new_stream(), world.device
    address = managed.new(8 * MIB)
    expect.equal("before", managed.taken(), 0, "D")
    expect("to the device", managed.prefetch(address, 2 * MIB, on(device), stream), Result.SUCCESS, "D")
    expect.equal("what the device has less", managed.taken(), 2 * MIB, "I")
    expect.equal("its pages", managed.attribute(address, 2 * MIB, RANGE_LAST_PREFETCH), [device], "D")
    expect.equal("all pages", managed.attribute(address, 8 * MIB, RANGE_LAST_PREFETCH), [DEVICE_NONE], "D")
    expect("again", managed.prefetch(address, 4 * MIB, on(device), stream), Result.SUCCESS, "D")
    expect.equal("what the device has less", managed.taken(), 4 * MIB, "I")
    code = world.driver.cuMemPrefetchAsync_v1(address, MIB, DEVICE_CPU, stream)
    expect("a part to the host", code, Result.SUCCESS, "D")
    expect.equal("what the device has less", managed.taken(), 3 * MIB, "I")
    got = [
        managed.attribute(address, MIB, attribute)[0] for attribute in (RANGE_LAST_PREFETCH_TYPE, RANGE_LAST_PREFETCH)
    ]
    expect.equal("the last prefetch", got, [LOCATION_HOST, DEVICE_CPU], "D")
    expect.equal("its id", managed.attribute(address + MIB, MIB, RANGE_LAST_PREFETCH_ID), [device], "D")
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
    expect.equal("the same after the work has run", managed.taken(), 3 * MIB, "I")


@both_profiles
def test_managed_memory_may_exceed_the_device_and_makes_room(
    world: World, managed: ManagedDesk, expect: Expectations
) -> None:
    total = world.free_at_start[world.device]
    big = managed.new(4 * total)
    expect.equal("what the device has less", managed.taken(), 0, "D")
    expect("prefetch of it all", managed.prefetch(big, 4 * total, on(world.device)), Result.SUCCESS, "D")
    expect.equal("free then", world.free_memory(), 0, "I")
    plain = world.new_allocation(total - 4 * MIB)
    expect.equal("free beside plain memory", world.free_memory(), 0, "I")
    world.must("cuMemFree", world.free_allocation(plain))
    expect.equal("the pages that were displaced do not come back", managed.taken(), 4 * MIB, "I")
    handle = world.new_chunk(64 * MIB)
    expect.equal("there is room for both", managed.taken(), 68 * MIB, "I")
    world.must("cuMemRelease", world.release(handle))
    world.must("cuMemFree", world.free_allocation(big))
    expect.equal("after the free", managed.taken(), 0, "D")


@two_devices
def test_the_oldest_pages_leave_first(world: World, managed: ManagedDesk, expect: Expectations) -> None:
    first, second = world.devices
    old, new = managed.new(40 * MIB), managed.new(40 * MIB)
    world.must("prefetch", managed.prefetch(old, 40 * MIB, on(first)))
    world.must("prefetch", managed.prefetch(new, 40 * MIB, on(first)))
    expect.equal("the device is full", world.free_memory(first), 0, "I")
    world.must("prefetch", managed.prefetch(new, 40 * MIB, on(second)))
    expect.equal("what is left of the old pages", managed.taken(first), 24 * MIB, "I")
    expect.equal("on the other device", managed.taken(second), 40 * MIB, "I")


@both_profiles
def test_pages_come_to_the_processor_that_uses_them(world: World, managed: ManagedDesk, expect: Expectations) -> None:
    driver, device = world.driver, world.device
    address, plain = managed.new(4 * MIB), world.new_allocation(2 * MIB)
    start = managed.taken()
    data = ctypes.create_string_buffer(MIB)
    world.must("cuMemcpyHtoD", driver.cuMemcpyHtoD(address, data, MIB))
    expect.equal("after a copy to it", managed.taken() - start, MIB, "I")
    world.must("cuMemsetD8", driver.cuMemsetD8(address + MIB, 1, MIB))
    expect.equal("after a fill", managed.taken() - start, 2 * MIB, "I")
    world.must("cuMemcpyDtoH", driver.cuMemcpyDtoH(address, plain, 2 * MIB))
    expect.equal("after a copy that uses it as host memory", managed.taken() - start, 0, "I")
    world.must("cuMemAdvise", managed.advise(address, 4 * MIB, ADVISE_SET_PREFERRED, HOST))
    world.must("cuMemsetD8", driver.cuMemsetD8(address, 1, 4 * MIB))
    expect.equal("after a fill of pages that prefer the host", managed.taken() - start, 0, "I")
    world.must("cuMemAdvise", managed.advise(address, 4 * MIB, ADVISE_SET_PREFERRED, on(device)))
    ranges = (EmulatorRange * 1)(EmulatorRange(address=address, size=3 * MIB, is_write=0))
    world.must("memlakeEmulatorLaunch", driver.memlakeEmulatorLaunch(None, b"kernel", ranges, 1))
    expect.equal("after declared work", managed.taken() - start, 3 * MIB, "I")


@two_devices
def test_every_device_reaches_managed_memory_without_peers(
    world: World, managed: ManagedDesk, expect: Expectations
) -> None:
    first, second = world.devices
    address = managed.new(MIB)
    world.must("prefetch", managed.prefetch(address, MIB, on(first)))
    world.use(second)
    ranges = (EmulatorRange * 1)(EmulatorRange(address=address, size=MIB, is_write=1))
    world.must("memlakeEmulatorLaunch", world.driver.memlakeEmulatorLaunch(None, b"kernel", ranges, 1))
    expect("the work", world.driver.cuCtxSynchronize(), Result.SUCCESS, "D")
    expect.equal("the pages", [managed.taken(first), managed.taken(second)], [0, MIB], "I")
    world.use(first)


@two_devices
def test_pages_that_are_mostly_read_have_copies(world: World, managed: ManagedDesk, expect: Expectations) -> None:
    first, second = world.devices
    address = managed.new(MIB)
    world.must("cuMemAdvise", managed.advise(address, MIB, ADVISE_SET_READ_MOSTLY))
    for device in (first, second):
        world.must("prefetch", managed.prefetch(address, MIB, on(device)))
    expect.equal("a copy on each device", [managed.taken(first), managed.taken(second)], [MIB, MIB], "D")
    world.must("cuMemsetD8", world.driver.cuMemsetD8(address, 1, MIB))
    expect.equal("after a write", [managed.taken(first), managed.taken(second)], [MIB, 0], "D")


@both_profiles
def test_attachments_are_checked(world: World, managed: ManagedDesk, expect: Expectations) -> None:
    stream, attach = world.new_stream(), world.driver.cuStreamAttachMemAsync
    address, plain = managed.new(8192), world.new_allocation(8192)
    for flags in (ATTACH_GLOBAL, ATTACH_HOST, ATTACH_SINGLE):
        for length in (0, 8192):
            expect(f"flags {flags}, {length} bytes", attach(stream, address, length, flags), Result.SUCCESS, "D")
    with expect.no_effect(world, "D"):
        expect("a part", attach(stream, address, 4096, ATTACH_GLOBAL), Result.INVALID_VALUE, "D")
        expect("from inside", attach(stream, address + 4096, 0, ATTACH_GLOBAL), Result.INVALID_VALUE, "D")
        expect("plain memory", attach(stream, plain, 0, ATTACH_GLOBAL), Result.INVALID_VALUE, "D")
        expect("flags 3", attach(stream, address, 0, 3), Result.INVALID_VALUE, "D")
        for null in (None, LEGACY_STREAM):
            expect("the NULL stream alone", attach(null, address, 0, ATTACH_SINGLE), Result.INVALID_VALUE, "D")
        expect("no stream", attach(12345, address, 0, ATTACH_GLOBAL), Result.INVALID_HANDLE, "D")
    expect("the NULL stream for all", attach(None, address, 0, ATTACH_GLOBAL), Result.SUCCESS, "D")


@both_profiles
def test_batches_of_prefetches_and_discards(world: World, managed: ManagedDesk, expect: Expectations) -> None:
    stream, device = world.new_stream(), world.device
    ranges = [(managed.new(2 * MIB), 2 * MIB) for _ in range(3)]
    code = managed.prefetch_batch(ranges, [on(device), HOST], [0, 2], stream)
    expect("two to the device, one to the host", code, Result.SUCCESS, "D")
    last = [managed.attribute(address, size, RANGE_LAST_PREFETCH)[0] for address, size in ranges]
    expect.equal("the last prefetches", last, [device, device, DEVICE_CPU], "D")
    expect.equal("what the device has less", managed.taken(), 4 * MIB, "I")
    expect("discard of one", managed.discard_batch(ranges[:1], stream), Result.SUCCESS, "D")
    expect.equal("what the device has less", managed.taken(), 2 * MIB, "I")
    expect.equal("the last prefetch", managed.attribute(*ranges[0], RANGE_LAST_PREFETCH), [device], "D")
    code = managed.prefetch_batch(ranges, [on(device)], [0], stream, "cuMemDiscardAndPrefetchBatchAsync")
    expect("discard and prefetch", code, Result.SUCCESS, "D")
    expect.equal("what the device has less", managed.taken(), 6 * MIB, "I")


@both_profiles
def test_wrong_batches_are_refused(world: World, managed: ManagedDesk, expect: Expectations) -> None:
    stream = world.new_stream()
    ranges = [(managed.new(2 * MIB), 2 * MIB) for _ in range(3)]
    bad = [*ranges, (world.new_allocation(2 * MIB), 2 * MIB)]
    places = [HOST, on(world.device)]
    with expect.no_effect(world, "D"):
        for function in ("cuMemPrefetchBatchAsync", "cuMemDiscardAndPrefetchBatchAsync"):
            for what, which, locations, starts, where in (
                ("no range", [], places, [0, 1], stream),
                ("plain memory", bad, places, [0, 1], stream),
                ("no location", ranges, [], [], stream),
                ("the first index is 1", ranges, places, [1, 2], stream),
                ("an index that does not grow", ranges, places, [0, 0], stream),
                ("an index behind the end", ranges, places, [0, 3], stream),
                ("more locations than ranges", ranges[:1], places, [0, 1], stream),
                ("the legacy stream", ranges, places, [0, 1], None),
            ):
                code = managed.prefetch_batch(which, locations, starts, where, function)
                expect(f"{function}: {what}", code, Result.INVALID_VALUE, "D")
            code = managed.prefetch_batch(ranges, places, [0, 1], stream, function, flags=1)
            expect(f"{function}: flags", code, Result.INVALID_VALUE, "D")
        expect("discard of plain memory", managed.discard_batch(bad, stream), Result.INVALID_VALUE, "D")
        expect("discard of nothing", managed.discard_batch([], stream), Result.INVALID_VALUE, "D")
        expect("discard in the legacy stream", managed.discard_batch(ranges, None), Result.INVALID_VALUE, "D")


@both_profiles
def test_functions_for_other_memory_refuse_managed_memory(
    world: World, managed: ManagedDesk, expect: Expectations
) -> None:
    stream = world.new_stream()
    address = managed.new(2 * MIB)
    with expect.no_effect(world, "D"):
        expect("cuMemFreeAsync", world.driver.cuMemFreeAsync(address, stream), Result.INVALID_VALUE, "I")
        expect("cuMemRetainAllocationHandle", world.retain(address)[0], Result.INVALID_VALUE, "D")
        expect("cuMemHostRegister", world.driver.cuMemHostRegister(address, 4096, 0), Result.INVALID_VALUE, "I")
        handle = ctypes.create_string_buffer(64)
        code = world.driver.cuIpcGetMemHandle(handle, address)
        expect.that("cuIpcGetMemHandle refuses", code in (Result.INVALID_VALUE, Result.NOT_SUPPORTED), "D")
        expect("cuMemFreeHost", world.driver.cuMemFreeHost(address), Result.INVALID_VALUE, "D")


@both_profiles
def test_managed_memory_ends_with_its_context(world: World, managed: ManagedDesk, expect: Expectations) -> None:
    device = world.device
    address = managed.new(2 * MIB)
    world.must("cuMemPrefetchAsync", managed.prefetch(address, 2 * MIB, on(device)))
    world.allocations.remove(address)
    world.must("cuDevicePrimaryCtxRelease", world.release_context(device))
    world.must("cuDevicePrimaryCtxRetain", world.retain_context(device))
    world.use(device)
    expect.equal("what the device has less", managed.taken(), 0, "I")
    expect("cuMemFree", world.driver.cuMemFree(address), Result.INVALID_VALUE, "I")


@pytest.mark.world(memory="4GiB", backing="none")
def test_without_backing_managed_memory_is_bookkeeping(
    world: World, managed: ManagedDesk, expect: Expectations
) -> None:
    address = managed.new(16 << 30)
    expect("prefetch", managed.prefetch(address, 1 << 30, on(world.device)), Result.SUCCESS, "D")
    expect.equal("what the device has less", managed.taken(), 1 << 30, "I")
    expect("fill", world.driver.cuMemsetD8(address, 1, 2 << 30), Result.SUCCESS, "D")
    world.must("cuCtxSynchronize", world.driver.cuCtxSynchronize())
    expect.equal("what the device has less", managed.taken(), 2 << 30, "I")
    expect.equal("its bytes are zeros", world.read(address, 4), (Result.SUCCESS, bytes(4)), "I")
