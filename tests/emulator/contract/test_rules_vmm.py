"""Rules of section A of the contract that no numbered case asks about, by the number of the rule."""

from __future__ import annotations

import ctypes
import mmap
from ctypes import byref, c_bool, c_int, c_uint, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

import pytest

from helpers.abi_types import (
    ACCESS_READ,
    ACCESS_READ_WRITE,
    ATTRIBUTE_HOST_VMM_SUPPORTED,
    HANDLE_POSIX_FD,
    HANDLE_WIN32,
    LOCATION_HOST,
    LOCATION_HOST_NUMA,
    POINTER_ACCESS_FLAGS,
    POINTER_ALLOWED_HANDLE_TYPES,
    POINTER_IS_LEGACY_IPC_CAPABLE,
    POINTER_MAPPED,
    POINTER_MAPPING_BASE,
    POINTER_MAPPING_SIZE,
    POINTER_MEMORY_BLOCK_ID,
    POINTER_RANGE_SIZE,
    POINTER_RANGE_START,
    EmulatorRange,
    MemAccessDesc,
    MemLocation,
    Result,
    device_prop,
)

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World


def test_rule_a1_stale_bytes_in_prop(world: World, expect: Expectations) -> None:
    """A1: reserved bytes are zero, and without WIN32 handles there are no security attributes: otherwise 1."""
    reserved, win32 = device_prop(world.device), device_prop(world.device)
    reserved.alloc_flags.reserved[3] = 1
    win32.win32_handle_meta_data = 1
    with expect.no_effect(world, "D"):
        for what, prop in (("a stale reserved byte", reserved), ("win32HandleMetaData", win32)):
            expect(f"C with {what}", world.create(world.granularity, prop=prop)[0], Result.INVALID_VALUE, "D")


def test_rule_a4_6_handle_types_linux_lacks(world: World, expect: Expectations) -> None:
    """A4.6: a handle type the device does not support -> 801."""
    code, _ = world.create(world.granularity, handle_types=HANDLE_WIN32)
    expect("C with a WIN32 handle type", code, Result.NOT_SUPPORTED, "D/O")


def test_rule_a4_10_zero_is_no_handle(world: World, expect: Expectations) -> None:
    """A4.10: 0 is not a valid handle; live handles differ."""
    handles = [world.new_chunk(world.granularity) for _ in range(8)]
    expect.that("no handle is 0", 0 not in handles, "O")
    expect.that("all differ", len(set(handles)) == 8, "O")


def test_rule_a7_9_host_descriptors(world: World, expect: Expectations) -> None:
    """A7.9: a HOST_NUMA descriptor on device memory -> 1."""
    address, _ = world.new_mapping(world.granularity)
    desc = MemAccessDesc(location=MemLocation(type=LOCATION_HOST_NUMA, id=0), flags=ACCESS_READ_WRITE)
    with expect.no_effect(world, "D"):
        code = world.driver.cuMemSetAccess(address, world.granularity, byref(desc), 1)
        expect("A for HOST_NUMA on device memory", code, Result.INVALID_VALUE, "D")


def test_rule_a1_host_memory(world: World, expect: Expectations) -> None:
    """A1: HOST memory is created like any other, its location's id is ignored, and it is no device's."""
    supported = c_int(0)
    world.driver.cuDeviceGetAttribute(byref(supported), ATTRIBUTE_HOST_VMM_SUPPORTED, world.device)
    if not supported.value:
        pytest.skip("the device has no virtual memory on the host (attribute 145)")
    before, prop = world.free_memory(), device_prop(0)
    prop.location = MemLocation(type=LOCATION_HOST, id=77)
    code, handle = world.create(world.granularity, prop=prop)
    expect("C with HOST", code, Result.SUCCESS, "D")
    expect.equal("bytes of device memory it took", before - world.free_memory(), 0, "I")
    address = world.new_reservation(world.granularity)
    expect("M of it", world.map(address, world.granularity, handle), Result.SUCCESS, "D")
    expect("A for a device", world.access(address, world.granularity), Result.SUCCESS, "D")
    expect("a copy to it", world.write(address, b"host"), Result.SUCCESS, "D")
    expect.equal("a copy from it", world.read(address, 4), (Result.SUCCESS, b"host"), "D")


def test_rule_a8_no_legacy_ipc(world: World, expect: Expectations) -> None:
    """A8: cuIpcGetMemHandle does not work on virtual memory -> 1."""
    address, _ = world.new_mapping(world.granularity)
    code = world.driver.cuIpcGetMemHandle((ctypes.c_char * 64)(), address)
    expect("cuIpcGetMemHandle on virtual memory", code, Result.INVALID_VALUE, "D")


def attribute(world: World, number: int, kind: type[Any], address: int) -> tuple[int, object]:
    """What cuPointerGetAttribute answers: the code and the value."""
    value = kind()
    return world.driver.cuPointerGetAttribute(byref(value), number, address), value.value


def test_rule_a10_pointer_queries(world: World, expect: Expectations) -> None:
    """A10: ranges are the reservation's, mappings are the mapping's, and aliases have one memory block."""
    granule = world.granularity
    start = world.new_reservation(4 * granule)
    mapped, alias = start + granule, start + 3 * granule
    handle = world.new_chunk(granule, handle_types=HANDLE_POSIX_FD)
    for address in (mapped, alias):
        world.must("cuMemMap", world.map(address, granule, handle))
    world.must("cuMemSetAccess", world.access(mapped, granule, ACCESS_READ))
    inside = mapped + granule // 2
    answers = {
        "RANGE_START_ADDR": (attribute(world, POINTER_RANGE_START, c_uint64, inside), start, "O"),
        "RANGE_SIZE": (attribute(world, POINTER_RANGE_SIZE, c_uint64, inside), 4 * granule, "O"),
        "MAPPED": (attribute(world, POINTER_MAPPED, c_bool, inside), True, "O"),
        "MAPPED in a hole": (attribute(world, POINTER_MAPPED, c_bool, start), False, "O"),
        "MAPPING_BASE_ADDR": (attribute(world, POINTER_MAPPING_BASE, c_uint64, inside), mapped, "D"),
        "MAPPING_SIZE": (attribute(world, POINTER_MAPPING_SIZE, c_uint64, inside), granule, "D"),
        "ALLOWED_HANDLE_TYPES": (attribute(world, POINTER_ALLOWED_HANDLE_TYPES, c_uint64, inside), 1, "D"),
        "ACCESS_FLAGS": (attribute(world, POINTER_ACCESS_FLAGS, c_uint, inside), ACCESS_READ, "D"),
        "IS_LEGACY_CUDA_IPC_CAPABLE": (attribute(world, POINTER_IS_LEGACY_IPC_CAPABLE, c_bool, inside), False, "D"),
    }
    for name, (got, want, label) in answers.items():
        expect.equal(name, got, (Result.SUCCESS, want), label)
    blocks = [attribute(world, POINTER_MEMORY_BLOCK_ID, c_uint64, address) for address in (mapped, alias)]
    expect.equal("MEMORY_BLOCK_ID of an alias", blocks[1], blocks[0], "D")
    got = world.address_range(inside)
    expect.equal("cuMemGetAddressRange", got, (Result.SUCCESS, mapped, granule), "O")
    expect("an unknown attribute", attribute(world, 9999, c_uint64, inside)[0], Result.INVALID_VALUE, "O")


def test_rule_a10_foreign_pointer(world: World, expect: Expectations) -> None:
    """A10: a pointer that is not CUDA's: single query 1, plural query 0 with zeros."""
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        view = ctypes.c_char.from_buffer(page)
        foreign = ctypes.addressof(view)
        code, _ = attribute(world, POINTER_RANGE_START, c_uint64, foreign)
        expect("the single query", code, Result.INVALID_VALUE, "D")
        value = c_uint64(77)
        numbers, places = (c_int * 1)(POINTER_RANGE_START), (c_void_p * 1)(ctypes.addressof(value))
        code = world.driver.cuPointerGetAttributes(1, numbers, places, foreign)
        expect("the plural query", code, Result.SUCCESS, "D")
        expect.equal("what it answers", value.value, 0, "D")
        del view


@pytest.mark.emulator_only("freeing addresses in use is undefined on a real driver")
@pytest.mark.world(relax="inflight_unmap")
def test_rule_a9_addresses_in_use(world: World, expect: Expectations) -> None:
    """A9: freeing addresses that queued work uses is a violation, even where the mapping is gone already."""
    granule, driver, stream = world.granularity, world.driver, world.new_stream()
    address, handle = world.new_mapping(granule)
    with world.blocked(stream):
        world.must("cuMemsetD8Async", driver.cuMemsetD8Async(address, 1, 512, stream))
        world.must("cuMemUnmap", world.unmap(address, granule))
        expect.violation("F while queued work uses the addresses", world.address_free(address, granule), "I")
        # The fill must find its memory again before it runs.
        world.must("cuMemMap", world.map(address, granule, handle))
        world.must("cuMemSetAccess", world.access(address, granule))


def test_rule_a9_plain_memory_waits(world: World, expect: Expectations) -> None:
    """A9: cuMemFree, unlike cuMemUnmap, waits for the work that uses the memory."""
    driver, stream, event = world.driver, world.new_stream(), world.new_event()
    memory = world.new_allocation(1 << 20)
    world.must("cuMemsetD8Async", driver.cuMemsetD8Async(memory, 1, 1 << 20, stream))
    world.must("cuEventRecord", driver.cuEventRecord(event, stream))
    expect("cuMemFree with work queued", world.free_allocation(memory), Result.SUCCESS, "D")
    expect("the work's event", driver.cuEventQuery(event), Result.SUCCESS, "I")


@pytest.mark.emulator_only("the case has no kernel to run on a real driver, and would lose its context")
@pytest.mark.world(devices=2)
def test_rule_0_4_4_sticky_error(world: World, expect: Expectations) -> None:
    """0.4.4, A7.16: a kernel without access loses its context: every call on it answers 700 until it is destroyed."""
    driver, (first, second) = world.driver, world.devices
    address, _ = world.new_mapping(world.granularity, access=ACCESS_READ)
    work = EmulatorRange(address, 512, 1)
    world.must("memlakeEmulatorLaunch", driver.memlakeEmulatorLaunch(None, b"write", byref(work), 1))
    expect("cuCtxSynchronize", driver.cuCtxSynchronize(), Result.ILLEGAL_ADDRESS, "D")
    expect("cuMemcpyDtoH afterwards", world.read(address, 4)[0], Result.ILLEGAL_ADDRESS, "D")
    memory = c_uint64(77)
    expect("cuMemAlloc afterwards", driver.cuMemAlloc(byref(memory), 512), Result.ILLEGAL_ADDRESS, "D")
    world.use(second)
    expect("cuCtxSynchronize on another device", driver.cuCtxSynchronize(), Result.SUCCESS, "D")
    world.must("cuCtxSetCurrent", driver.cuCtxSetCurrent(None))
    world.must("cuDevicePrimaryCtxRelease", world.release_context(first))
    world.must("cuDevicePrimaryCtxRetain", world.retain_context(first))
    world.use(first)
    expect("cuCtxSynchronize in a new context", driver.cuCtxSynchronize(), Result.SUCCESS, "D")
    expect("DtoH in a new context", world.read(address, 4)[0], Result.SUCCESS, "D")
