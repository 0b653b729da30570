"""The switches of section 0.3 of the contract that concern virtual memory.

The strict emulator refuses each of them (the numbered cases); here each is relaxed, by its name and by the profile.
"""

from __future__ import annotations

from ctypes import byref, c_int
from typing import TYPE_CHECKING

import pytest

from emulator.contract.programs import run_program
from helpers.abi_types import ACCESS_NONE, ACCESS_READ_WRITE, GRANULARITY_MINIMUM, Result

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_driver import Driver
    from helpers.abi_world import World

pytestmark = pytest.mark.emulator_only("profiles and switches are the emulator's")


def relaxed(switch: str) -> pytest.MarkDecorator:
    """A strict device with this one switch relaxed, and a device of the profile nvidia."""
    shapes = [{"relax": switch}, {"profile": "nvidia"}]
    return pytest.mark.parametrize("device_config", shapes, ids=[switch, "nvidia"], indirect=True)


def seam_of_neighbours(world: World) -> int:
    """The address at which one reservation ends and the next begins."""
    neighbours = world.neighbours()
    assert neighbours is not None
    return neighbours[1]


@relaxed("map_across_reservations")
def test_map_across_reservations(world: World, expect: Expectations) -> None:
    """A5.6: one mapping over two adjacent reservations. It is one whole mapping, so it can be unmapped (A6.1)."""
    granule, seam = world.granularity, seam_of_neighbours(world)
    handle = world.new_chunk(2 * granule)
    expect("M across two reservations", world.map(seam - granule, 2 * granule, handle), Result.SUCCESS, "U")
    expect("A over it", world.access(seam - granule, 2 * granule), Result.SUCCESS, "U")
    expect("write over the seam", world.write(seam - 4, b"the seam"), Result.SUCCESS, "U")
    expect.equal("read it back", world.read(seam - 4, 8), (Result.SUCCESS, b"the seam"), "U")
    expect("U of it", world.unmap(seam - granule, 2 * granule), Result.SUCCESS, "D")


@pytest.mark.world(relax="map_across_reservations")
def test_free_under_a_mapping_across(world: World, expect: Expectations) -> None:
    """A3.4: neither of the reservations under such a mapping can be freed."""
    granule, seam = world.granularity, seam_of_neighbours(world)
    world.must("cuMemMap", world.map(seam - granule, 2 * granule, world.new_chunk(2 * granule)))
    with expect.no_effect(world, "U"):
        for name, address in zip(("first", "second"), sorted(world.reservations), strict=True):
            code = world.address_free(address, world.reservations[address])
            expect(f"F of the {name} reservation", code, Result.INVALID_VALUE, "U")


@relaxed("unmap_across_reservations")
def test_unmap_across_reservations(world: World, expect: Expectations) -> None:
    """A6.4: one unmap over two adjacent reservations; the profile nvidia allows it."""
    granule, seam = world.granularity, seam_of_neighbours(world)
    for address in (seam - granule, seam):
        world.must("cuMemMap", world.map(address, granule, world.new_chunk(granule)))
    expect("U across two reservations", world.unmap(seam - granule, 2 * granule), Result.SUCCESS, "O")


@relaxed("set_access_subrange")
def test_set_access_subrange(world: World, expect: Expectations) -> None:
    """A7.5: access to a part of a mapping, at granularity."""
    granule = world.granularity
    address, _ = world.new_mapping(3 * granule, access=None)
    expect("A on the middle", world.access(address + granule, granule), Result.SUCCESS, "U")
    got = [world.get_access(address + place * granule)[1] for place in range(3)]
    expect.equal("access by granule", got, [ACCESS_NONE, ACCESS_READ_WRITE, ACCESS_NONE], "U")
    expect("write inside", world.write(address + granule, b"here"), Result.SUCCESS, "U")
    expect("write outside", world.write(address, b"not here"), Result.INVALID_VALUE, "U")
    expect("A below the granularity", world.access(address, granule // 2), Result.INVALID_VALUE, "U")


@relaxed("address_free_while_mapped")
def test_address_free_while_mapped(world: World, expect: Expectations) -> None:
    """A3.4: freeing the addresses drops the mappings in them."""
    size, before = 2 * world.granularity, world.free_memory()
    address, handle = world.new_mapping(size)
    expect("F while mapped", world.address_free(address, size), Result.SUCCESS, "U")
    expect("U afterwards", world.unmap(address, size), Result.INVALID_VALUE, "U")
    expect("X", world.release(handle), Result.SUCCESS, "U")
    expect.equal("free memory", world.free_memory(), before, "U")


@pytest.mark.world(profile="nvidia")
def test_map_offset_stays_zero(world: World, expect: Expectations) -> None:
    """A5.3: an offset is refused by every CUDA driver, so the profile nvidia refuses it, too."""
    granule = world.granularity
    address, handle = world.new_reservation(2 * granule), world.new_chunk(2 * granule)
    with expect.no_effect(world, "D"):
        expect("M with offset G", world.map(address, granule, handle, offset=granule), Result.INVALID_VALUE, "D")


@pytest.mark.world(relax="map_offset_nonzero")
def test_map_offset_nonzero(world: World, expect: Expectations) -> None:
    """A5.3: with the switch a mapping may begin inside the chunk."""
    granule = world.granularity
    whole, handle = world.new_mapping(2 * granule)
    world.must("write", world.write(whole + granule, b"second granule"))
    address = world.new_reservation(granule)
    expect("M with offset G", world.map(address, granule, handle, offset=granule), Result.SUCCESS, "D")
    world.must("cuMemSetAccess", world.access(address, granule))
    expect.equal("what it shows", world.read(address, 14), (Result.SUCCESS, b"second granule"), "D")
    refused = world.new_reservation(2 * granule)
    code = world.map(refused, 2 * granule, handle, offset=granule)
    expect("M beyond the end of the chunk", code, Result.INVALID_VALUE, "D")


@relaxed("inflight_unmap")
def test_inflight_unmap(world: World, expect: Expectations) -> None:
    """A9: with the switch, unmapping memory in use is silent."""
    granule, driver = world.granularity, world.driver
    address, _ = world.new_mapping(granule)
    other, stream = world.new_allocation(512), world.new_stream()
    with world.blocked(stream):
        world.must("cuMemsetD8Async", driver.cuMemsetD8Async(other, 1, 512, stream))
        world.must("cuMemcpyDtoDAsync", driver.cuMemcpyDtoDAsync(address, other, 512, stream))
        expect("U while a queued copy uses the range", world.unmap(address, granule), Result.SUCCESS, "O")
        # The copy must find its memory again before it runs: what happens otherwise is another rule.
        handle = next(iter(world.references))
        world.must("cuMemMap", world.map(address, granule, handle))
        world.must("cuMemSetAccess", world.access(address, granule))


@pytest.mark.world(relax="map_across_reservations+unmap_across_reservations+set_access_subrange")
def test_null_prop_stays_a_violation(world: World, expect: Expectations) -> None:
    """A2.5: nothing relaxes what crashes the real driver."""
    code = world.driver.cuMemGetAllocationGranularity(None, None, GRANULARITY_MINIMUM)
    expect.that("a NULL prop is refused", code != Result.SUCCESS, "O")
    if world.driver.last_violation():
        expect.violations += 1


def test_unaligned_hint(world: World, expect: Expectations) -> None:
    """A3.1g: an address hint that is not page-aligned is refused by the strict emulator."""
    free = world.new_reservation(world.granularity)
    world.must("cuMemAddressFree", world.address_free(free, world.granularity))
    with expect.no_effect(world, "U"):
        code, _ = world.reserve(world.granularity, hint=free + 1)
        expect("R with an unaligned hint", code, Result.INVALID_VALUE, "U")


def test_nvidia_judges_calls_without_a_device(driver: Driver, expect: Expectations) -> None:
    """A2.4, A3.1g: with the profile nvidia a strange prop is no warning, and an unaligned hint is ignored."""
    answers = run_program("nvidia_profile", driver.library)
    expect("granularity of device N", answers["device id N"], Result.SUCCESS, "O")
    expect("granularity of type 0", answers["type 0"], Result.SUCCESS, "O")
    expect.equal("warnings", answers["warnings"], [], "O")
    expect("R with an unaligned hint", answers["unaligned hint"], Result.SUCCESS, "U")
    expect.equal("address modulo G", answers["address modulo G"], 0, "U")


def test_switches_are_separate(world: World, expect: Expectations) -> None:
    """0.3: an unknown switch is refused with a sentence that names it."""
    config = b"relax=no_such_switch"
    code = world.driver.memlakeEmulatorAddDevices(config, byref(c_int()), byref(c_int()))
    sentence = world.driver.last_error()
    expect("an unknown switch", code, Result.INVALID_VALUE, "I")
    expect.that("the sentence names it", "no_such_switch" in sentence, "I")


@pytest.mark.world(backing="none", memory="80GiB")
def test_bookkeeping_only(world: World, expect: Expectations) -> None:
    """The rules are the same without bytes: an 80 GiB device, filled, stitched and emptied."""
    granule = world.granularity
    before, size = world.free_memory(), 64 * granule
    chunks = [world.new_chunk(size) for _ in range(before // size)]
    expect("C when all is taken", world.create(size)[0], Result.OUT_OF_MEMORY, "D")
    start = world.new_reservation(len(chunks) * size)
    for place, handle in enumerate(chunks):
        world.must("cuMemMap", world.map(start + place * size, size, handle))
    expect("A over all", world.access(start, len(chunks) * size), Result.SUCCESS, "O")
    expect("M over a mapping", world.map(start, size, chunks[1]), Result.INVALID_VALUE, "O")
    expect("U of a part", world.unmap(start, size // 2), Result.INVALID_VALUE, "O")
    expect("U of all", world.unmap(start, len(chunks) * size), Result.SUCCESS, "O")


@pytest.mark.world(profile="strict")
def test_context_must_be_retained(world: World, expect: Expectations) -> None:
    """0.4.8: the strict emulator checks that the primary context is retained before memory of a device is touched."""
    address, _ = world.new_mapping(world.granularity)
    world.must("cuCtxSetCurrent", world.driver.cuCtxSetCurrent(None))
    world.must("cuDevicePrimaryCtxRelease", world.release_context(world.device))
    expect.violation("C without a context", world.create(world.granularity)[0], "I")
    expect.violation("A without a context", world.access(address, world.granularity), "I")
    world.must("cuDevicePrimaryCtxRetain", world.retain_context(world.device))
    world.use(world.device)
    expect("C with it", world.create(world.granularity)[0], Result.SUCCESS, "I")
