"""Cases 25 to 37: creating and releasing physical memory, and what cuMemGetInfo says about it."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_uint64
from typing import TYPE_CHECKING

import pytest

from helpers.abi_types import (
    HANDLE_POSIX_FD,
    LOCATION_HOST,
    LOCATION_HOST_NUMA_CURRENT,
    MemAllocationProp,
    MemLocation,
    Result,
    device_prop,
)

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

pytestmark = pytest.mark.granularities


def test_case_025_bad_arguments(world: World, expect: Expectations) -> None:
    """C(0), C(G-1), C(G+P) -> 1; handle NULL, prop NULL, flags 1 -> 1."""
    granule, prop, handle = world.granularity, device_prop(world.device), c_uint64(77)
    create = world.driver.cuMemCreate
    with expect.no_effect(world, "I"):
        for what, size in (("0", 0), ("G-1", granule - 1), ("G+P", granule + world.page)):
            expect(f"C({what})", create(byref(handle), size, byref(prop), 0), Result.INVALID_VALUE, "O")
        expect("handle NULL", create(None, granule, byref(prop), 0), Result.INVALID_VALUE, "O")
        expect("prop NULL", create(byref(handle), granule, None, 0), Result.INVALID_VALUE, "O")
        expect("flags 1", create(byref(handle), granule, byref(prop), 1), Result.INVALID_VALUE, "O")
    expect.equal("the out-parameter", handle.value, 77, "I")


def test_case_026_bad_prop(world: World, expect: Expectations) -> None:
    """prop.type 0; location.type 0; location.type 99; id -1; id N -> 1."""
    props = {what: device_prop(world.device) for what in ("type 0", "location 0", "location 99", "id -1", "id N")}
    props["type 0"].type = 0
    props["location 0"].location.type = 0
    props["location 99"].location.type = 99
    props["id -1"].location.id = -1
    props["id N"].location.id = world.count
    with expect.no_effect(world, "I"):
        for what, prop in props.items():
            expect(f"C with {what}", world.create(world.granularity, prop=prop)[0], Result.INVALID_VALUE, "O")


def test_case_027_host_locations(world: World, expect: Expectations) -> None:
    """HOST_NUMA_CURRENT -> 1; HOST with handle type 1 -> 1."""
    current, host = device_prop(0), device_prop(0, HANDLE_POSIX_FD)
    current.location = MemLocation(type=LOCATION_HOST_NUMA_CURRENT, id=0)
    host.location = MemLocation(type=LOCATION_HOST, id=0)
    with expect.no_effect(world, "I"):
        code, _ = world.create(world.granularity, prop=current)
        expect("C with HOST_NUMA_CURRENT", code, Result.INVALID_VALUE, "D")
        code, _ = world.create(world.granularity, prop=host)
        expect("C with HOST and a handle type", code, Result.INVALID_VALUE, "D")


def test_case_028_accounted_at_create(world: World, expect: Expectations) -> None:
    """C(4G): free drops by exactly 4G; M, second M elsewhere, A: free unchanged."""
    size, before = 4 * world.granularity, world.free_memory()
    handle = world.new_chunk(size)
    expect.equal("bytes taken by C(4G)", before - world.free_memory(), size, "O")
    for where in ("first", "second"):
        address = world.new_reservation(size)
        expect(f"{where} M", world.map(address, size, handle), Result.SUCCESS, "O")
        expect.equal(f"bytes taken after the {where} M", before - world.free_memory(), size, "O")
        expect("A", world.access(address, size), Result.SUCCESS, "O")
        expect.equal("bytes taken after A", before - world.free_memory(), size, "O")


def test_case_029_out_of_memory(world: World, expect: Expectations) -> None:
    """C(free+G) -> 2; free unchanged; next C(G) -> 0."""
    free, granule = world.free_memory(), world.granularity
    too_much = (free // granule + 1) * granule
    expect("C(free+G)", world.create(too_much)[0], Result.OUT_OF_MEMORY, "D")
    expect.equal("free memory", world.free_memory(), free, "D")
    expect("C(G)", world.create(granule)[0], Result.SUCCESS, "D")


def test_case_030_release_gives_back(world: World, expect: Expectations) -> None:
    """C, X -> free restored."""
    before = world.free_memory()
    handle = world.new_chunk(3 * world.granularity)
    expect("X", world.release(handle), Result.SUCCESS, "D")
    expect.equal("free memory", world.free_memory(), before, "D")


def test_case_031_release_while_mapped(world: World, expect: Expectations) -> None:
    """C, M, A, X: free not restored, data still readable/writable; U -> restored."""
    before, size = world.free_memory(), 2 * world.granularity
    address, handle = world.new_mapping(size)
    world.must("write", world.write(address, b"before"))
    expect("X while mapped", world.release(handle), Result.SUCCESS, "D/O")
    expect.equal("free memory after X", before - world.free_memory(), size, "D/O")
    expect.equal("read after X", world.read(address, 6), (Result.SUCCESS, b"before"), "D/O")
    expect("write after X", world.write(address + size - 5, b"after"), Result.SUCCESS, "D/O")
    expect.equal("read what was written", world.read(address + size - 5, 5), (Result.SUCCESS, b"after"), "D/O")
    expect("A after X", world.access(address, size), Result.SUCCESS, "O")
    expect("U", world.unmap(address, size), Result.SUCCESS, "D/O")
    expect.equal("free memory after U", world.free_memory(), before, "D/O")


def test_case_032_last_unmap_gives_back(world: World, expect: Expectations) -> None:
    """C, M at p1 and p2, X, U(p1): not restored; U(p2): restored."""
    before, size = world.free_memory(), world.granularity
    handle = world.new_chunk(size)
    first, second = world.new_reservation(size), world.new_reservation(size)
    for address in (first, second):
        world.must("cuMemMap", world.map(address, size, handle))
    expect("X", world.release(handle), Result.SUCCESS, "D")
    expect("U(p1)", world.unmap(first, size), Result.SUCCESS, "D")
    expect.equal("bytes taken after U(p1)", before - world.free_memory(), size, "D")
    expect("U(p2)", world.unmap(second, size), Result.SUCCESS, "D")
    expect.equal("bytes taken after U(p2)", before - world.free_memory(), 0, "D")


def test_case_033_bad_releases(world: World, expect: Expectations) -> None:
    """X(0) -> 1. X twice after one create -> second is CV + 1."""
    with expect.no_effect(world, "O"):
        expect("X(0)", world.release(0), Result.INVALID_VALUE, "O")
    handle = world.new_chunk(world.granularity)
    world.must("cuMemRelease", world.release(handle))
    if world.driver.is_emulated:
        expect.violation("second X", world.release(handle), "D", want=Result.INVALID_VALUE)


def test_case_034_retain(world: World, expect: Expectations) -> None:
    """C, retain (from mapped address, first and last byte): same value each time; needs 3 releases in total."""
    before, size = world.free_memory(), 2 * world.granularity
    address, handle = world.new_mapping(size)
    expect.equal("retain at the first byte", world.retain(address), (Result.SUCCESS, handle), "D")
    expect.equal("retain at the last byte", world.retain(address + size - 1), (Result.SUCCESS, handle), "D")
    world.must("cuMemUnmap", world.unmap(address, size))
    for time, taken in (("first", size), ("second", size), ("third", 0)):
        expect(f"{time} X", world.release(handle), Result.SUCCESS, "D")
        expect.equal(f"bytes taken after the {time} X", before - world.free_memory(), taken, "D")


def test_case_035_retain_nothing(world: World, expect: Expectations) -> None:
    """Retain on reserved-unmapped, on NULL, after U, with NULL out -> 1."""
    granule = world.granularity
    reserved = world.new_reservation(granule)
    mapped, _ = world.new_mapping(granule)
    with expect.no_effect(world, "I"):
        expect("retain on a bare reservation", world.retain(reserved)[0], Result.INVALID_VALUE, "O")
        expect("retain on NULL", world.retain(0)[0], Result.INVALID_VALUE, "O")
        code = world.driver.cuMemRetainAllocationHandle(None, mapped)
        expect("retain with NULL out", code, Result.INVALID_VALUE, "O")
    world.must("cuMemUnmap", world.unmap(mapped, granule))
    expect("retain after U", world.retain(mapped)[0], Result.INVALID_VALUE, "O")


@pytest.mark.parametrize("handle_types", [0, HANDLE_POSIX_FD])
def test_case_036_properties(handle_types: int, world: World, expect: Expectations) -> None:
    """Get-properties: equals the requested prop; NULL/0 -> 1."""
    wanted = device_prop(world.device, handle_types)
    handle = world.new_chunk(world.granularity, handle_types=handle_types)
    ask = world.driver.cuMemGetAllocationPropertiesFromHandle
    got = MemAllocationProp()
    expect("get-properties", ask(byref(got), handle), Result.SUCCESS, "O")
    expect.equal("the properties", ctypes.string_at(byref(got), 32), ctypes.string_at(byref(wanted), 32), "O")
    expect("prop NULL", ask(None, handle), Result.INVALID_VALUE, "O")
    expect("handle 0", ask(byref(got), 0), Result.INVALID_VALUE, "O")


@pytest.mark.emulator_only("a released handle is undefined behaviour on a real driver")
def test_case_037_map_released_handle(world: World, expect: Expectations) -> None:
    """M with a handle value whose references are all released -> 1 + CV, even while an old mapping lives."""
    granule = world.granularity
    mapped, handle = world.new_mapping(granule)
    other = world.new_reservation(granule)
    world.must("cuMemRelease", world.release(handle))
    with expect.no_effect(world, "I"):
        code = world.map(other, granule, handle)
        expect.violation("M while an old mapping lives", code, "I", want=Result.INVALID_VALUE)
    world.must("cuMemUnmap", world.unmap(mapped, granule))
    with expect.no_effect(world, "I"):
        expect.violation("M after the last U", world.map(other, granule, handle), "I", want=Result.INVALID_VALUE)
