"""Cases 49 to 59: who may read and write a mapping."""

from __future__ import annotations

from ctypes import byref, c_ulonglong
from typing import TYPE_CHECKING

import pytest

from helpers.abi_types import (
    ACCESS_NONE,
    ACCESS_READ,
    ACCESS_READ_WRITE,
    LOCATION_DEVICE,
    MemAccessDesc,
    MemLocation,
    Result,
    access_descs,
)

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

TEXT = b"sixteen bytes ok"


@pytest.mark.granularities
def test_case_049_copies_need_access(world: World, expect: Expectations) -> None:
    """After M without A: cuMemcpyHtoD -> 1; after A(READ): HtoD -> 1, DtoH -> 0; after RW both 0."""
    address, _ = world.new_mapping(world.granularity, access=None)
    expect("HtoD without access", world.write(address, TEXT), Result.INVALID_VALUE, "O")
    expect("DtoH without access", world.read(address, 16)[0], Result.INVALID_VALUE, "O")
    expect("A(READ)", world.access(address, world.granularity, ACCESS_READ), Result.SUCCESS, "O")
    expect("HtoD with READ", world.write(address, TEXT), Result.INVALID_VALUE, "O")
    expect("DtoH with READ", world.read(address, 16)[0], Result.SUCCESS, "O")
    expect("A(READWRITE)", world.access(address, world.granularity), Result.SUCCESS, "O")
    expect("HtoD with READWRITE", world.write(address, TEXT), Result.SUCCESS, "O")
    expect.equal("DtoH with READWRITE", world.read(address, 16), (Result.SUCCESS, TEXT), "O")


@pytest.mark.granularities
def test_case_050_access_needs_mappings(world: World, expect: Expectations) -> None:
    """A on unmapped; on range with a hole; beyond mapped end -> 1, no effect on the mapped part."""
    granule = world.granularity
    start = world.new_reservation(6 * granule)
    handle = world.new_chunk(granule)
    for place in (0, 2, 3):
        world.must("cuMemMap", world.map(start + place * granule, granule, handle))
    with expect.no_effect(world, "O/I"):
        expect("A on unmapped", world.access(start + granule, granule), Result.INVALID_VALUE, "O/I")
        expect("A over a hole", world.access(start, 4 * granule), Result.INVALID_VALUE, "O/I")
        expect("A beyond the mapped end", world.access(start + 2 * granule, 3 * granule), Result.INVALID_VALUE, "O/I")
        expect("A beyond the reservation", world.access(start + 2 * granule, 9 * granule), Result.INVALID_VALUE, "O/I")
        expect("A at 0", world.access(0, granule), Result.INVALID_VALUE, "O/I")


@pytest.mark.granularities
def test_case_051_one_call_for_many_mappings(world: World, expect: Expectations) -> None:
    """A over several mappings in one call -> 0; cuMemGetAccess on each -> 3."""
    granule = world.granularity
    start = world.new_reservation(4 * granule)
    sizes = (granule, 2 * granule, granule)
    address = start
    for size in sizes:
        world.must("cuMemMap", world.map(address, size, world.new_chunk(size)))
        address += size
    expect("A over three mappings", world.access(start, 4 * granule), Result.SUCCESS, "O")
    for place in range(4):
        got = world.get_access(start + place * granule)
        expect.equal(f"access at granule {place}", got, (Result.SUCCESS, ACCESS_READ_WRITE), "O")


@pytest.mark.granularities
def test_case_052_part_of_a_mapping(world: World, expect: Expectations) -> None:
    """A on half of a mapping -> strict 1 (report)."""
    granule = world.granularity
    address, _ = world.new_mapping(2 * granule, access=None)
    with expect.no_effect(world, "U"):
        expect("A on the first half", world.access(address, granule), Result.INVALID_VALUE, "U")
        expect("A on the second half", world.access(address + granule, granule), Result.INVALID_VALUE, "U")


def test_case_053_bad_arguments(world: World, expect: Expectations) -> None:
    """Desc NULL; count 0; size 0; flags 2; location type 0 -> 1; device id N -> 101."""
    granule, set_access = world.granularity, world.driver.cuMemSetAccess
    address, _ = world.new_mapping(granule, access=None)
    good = access_descs([world.device], ACCESS_READ_WRITE)
    nowhere = MemAccessDesc(location=MemLocation(type=0, id=world.device), flags=ACCESS_READ_WRITE)
    with expect.no_effect(world, "D/I"):
        expect("desc NULL", set_access(address, granule, None, 1), Result.INVALID_VALUE, "D/I")
        expect("count 0", set_access(address, granule, good, 0), Result.INVALID_VALUE, "D/I")
        expect("size 0", set_access(address, 0, good, 1), Result.INVALID_VALUE, "D/I")
        expect("flags 2", world.access(address, granule, 2), Result.INVALID_VALUE, "D/I")
        expect("location type 0", set_access(address, granule, byref(nowhere), 1), Result.INVALID_VALUE, "D/I")
        code = world.access(address, granule, devices=[world.count])
        expect("device id N", code, Result.INVALID_DEVICE, "D/I")


@pytest.mark.granularities
def test_case_054_new_mapping_has_no_access(world: World, expect: Expectations) -> None:
    """U then M again at the same VA: access is 0 until A."""
    granule = world.granularity
    address, handle = world.new_mapping(granule)
    expect.equal("access after A", world.get_access(address), (Result.SUCCESS, ACCESS_READ_WRITE), "D")
    world.must("cuMemUnmap", world.unmap(address, granule))
    world.must("cuMemMap", world.map(address, granule, handle))
    expect.equal("access after U and M", world.get_access(address), (Result.SUCCESS, ACCESS_NONE), "D")
    expect("HtoD after U and M", world.write(address, TEXT), Result.INVALID_VALUE, "D")
    world.must("cuMemSetAccess", world.access(address, granule))
    expect.equal("access after A again", world.get_access(address), (Result.SUCCESS, ACCESS_READ_WRITE), "D")


def test_case_055_downgrade(world: World, expect: Expectations) -> None:
    """Downgrade RW->NONE, then copy -> 1."""
    address, _ = world.new_mapping(world.granularity)
    expect("HtoD with READWRITE", world.write(address, TEXT), Result.SUCCESS, "O")
    expect("A(NONE)", world.access(address, world.granularity, ACCESS_NONE), Result.SUCCESS, "O")
    expect("HtoD after A(NONE)", world.write(address, TEXT), Result.INVALID_VALUE, "O")
    expect("DtoH after A(NONE)", world.read(address, 16)[0], Result.INVALID_VALUE, "O")
    expect("A(READWRITE) again", world.access(address, world.granularity), Result.SUCCESS, "O")
    expect.equal("the bytes are still there", world.read(address, 16), (Result.SUCCESS, TEXT), "O")


@pytest.mark.granularities
def test_case_056_get_access(world: World, expect: Expectations) -> None:
    """GetAccess: last byte 0; base+size -> 1; NULLs -> 1."""
    size, get_access = world.granularity, world.driver.cuMemGetAccess
    address = world.new_reservation(2 * size)
    world.must("cuMemMap", world.map(address, size, world.new_chunk(size)))
    world.must("cuMemSetAccess", world.access(address, size))
    flags, location = c_ulonglong(77), MemLocation(type=LOCATION_DEVICE, id=world.device)
    expect.equal("the last byte", world.get_access(address + size - 1), (Result.SUCCESS, ACCESS_READ_WRITE), "O")
    code = get_access(byref(flags), byref(location), address + size)
    expect("base+size", code, Result.INVALID_VALUE, "O")
    expect("flags NULL", get_access(None, byref(location), address), Result.INVALID_VALUE, "O")
    expect("location NULL", get_access(byref(flags), None, address), Result.INVALID_VALUE, "O")
    expect.equal("the out-parameter", flags.value, 77, "I")


@pytest.mark.world(devices=2)
def test_case_056_other_device(world: World, expect: Expectations) -> None:
    """GetAccess: other device -> 0 with flags 0."""
    address, _ = world.new_mapping(world.granularity)
    got = world.get_access(address, world.devices[1])
    expect.equal("access of another device", got, (Result.SUCCESS, ACCESS_NONE), "O")


def test_case_057_access_is_per_address(world: World, expect: Expectations) -> None:
    """Two aliases with READ and RW: write via RW alias 0, via READ alias 1."""
    granule = world.granularity
    writable, handle = world.new_mapping(granule)
    readable = world.new_reservation(granule)
    world.must("cuMemMap", world.map(readable, granule, handle))
    world.must("cuMemSetAccess", world.access(readable, granule, ACCESS_READ))
    expect("write through the READWRITE alias", world.write(writable, TEXT), Result.SUCCESS, "I")
    expect("write through the READ alias", world.write(readable, TEXT), Result.INVALID_VALUE, "I")
    expect.equal("read through the READ alias", world.read(readable, 16), (Result.SUCCESS, TEXT), "I")
    expect.equal("access of the READWRITE alias", world.get_access(writable), (Result.SUCCESS, ACCESS_READ_WRITE), "I")


@pytest.mark.world(devices=2, peers="none")
def test_case_058_no_peers(world: World, expect: Expectations) -> None:
    """Two emulated devices, no P2P: A for device 1 on device-0 memory -> 217."""
    address, _ = world.new_mapping(world.granularity)
    with expect.no_effect(world, "O/U"):
        code = world.access(address, world.granularity, devices=[world.devices[1]])
        expect("A for a device that is no peer", code, Result.PEER_ACCESS_UNSUPPORTED, "O/U")


@pytest.mark.world(devices=2, peers="all")
def test_case_058_peers(world: World, expect: Expectations) -> None:
    """With P2P -> 0 and GetAccess = 3; cuCtxEnablePeerAccess alone gives no VMM access."""
    first, second = world.devices
    address, _ = world.new_mapping(world.granularity)
    world.must("write", world.write(address, TEXT))

    world.use(second)
    enable = world.driver.cuCtxEnablePeerAccess(world.contexts[first], 0)
    expect("cuCtxEnablePeerAccess", enable, Result.SUCCESS, "D")
    got = world.get_access(address, second)
    expect.equal("access after cuCtxEnablePeerAccess", got, (Result.SUCCESS, ACCESS_NONE), "O/D")

    code = world.access(address, world.granularity, devices=[second])
    expect("A for a peer", code, Result.SUCCESS, "O/D")
    got = world.get_access(address, second)
    expect.equal("access after A", got, (Result.SUCCESS, ACCESS_READ_WRITE), "O/D")
    world.use(second)
    expect.equal("a read in the peer's context", world.read(address, 16), (Result.SUCCESS, TEXT), "O/D")
    world.must("cuCtxDisablePeerAccess", world.driver.cuCtxDisablePeerAccess(world.contexts[first]))
    world.use(first)


@pytest.mark.world(devices=2, peers="all")
def test_case_058_peers_in_one_call(world: World, expect: Expectations) -> None:
    """With P2P -> 0 and GetAccess = 3: one descriptor per device in one call, over memory of both devices (A7.7)."""
    granule = world.granularity
    start = world.new_reservation(2 * granule)
    for place, device in enumerate(world.devices):
        world.must("cuMemMap", world.map(start + place * granule, granule, world.new_chunk(granule, device)))
    expect("A for both devices", world.access(start, 2 * granule, devices=world.devices), Result.SUCCESS, "D")
    for place in range(2):
        for device in world.devices:
            got = world.get_access(start + place * granule, device)
            expect.equal("access", got, (Result.SUCCESS, ACCESS_READ_WRITE), "D")


@pytest.mark.emulator_only("what a real driver leaves behind when one descriptor of a list is bad is not documented")
def test_case_059_all_or_nothing(world: World, expect: Expectations) -> None:
    """Descriptor list {valid, invalid device} -> error, GetAccess of the valid one unchanged (emulator only)."""
    granule = world.granularity
    address, _ = world.new_mapping(granule, access=ACCESS_READ)
    with expect.no_effect(world, "I"):
        for devices in ([world.device, world.count], [world.count, world.device]):
            code = world.access(address, granule, devices=devices)
            expect("A with a bad device in the list", code, Result.INVALID_DEVICE, "I")
    expect.equal("access of the valid one", world.get_access(address), (Result.SUCCESS, ACCESS_READ), "I")
