"""Cases 38 to 48: mapping physical memory into reservations."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from helpers.abi_types import Result

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

pytestmark = pytest.mark.granularities


def test_case_038_size_of_a_mapping(world: World, expect: Expectations) -> None:
    """M(p, n+G over the handle) -> 1; M with size = handle -> 0; M with size < handle (prefix) -> 0."""
    granule = world.granularity
    address = world.new_reservation(8 * granule)
    handle = world.new_chunk(2 * granule)
    with expect.no_effect(world, "D/O"):
        expect("M beyond the handle", world.map(address, 3 * granule, handle), Result.INVALID_VALUE, "D/O")
    expect("M of the whole handle", world.map(address, 2 * granule, handle), Result.SUCCESS, "D/O")
    expect("M of a prefix", world.map(address + 4 * granule, granule, handle), Result.SUCCESS, "D/O")


def test_case_039_bad_arguments(world: World, expect: Expectations) -> None:
    """M at p+P (unaligned) -> 1; size G/2 -> 1; M(0,...) -> 1; size 0 -> 1; flags 1 -> 1."""
    granule = world.granularity
    address = world.new_reservation(4 * granule)
    handle = world.new_chunk(granule)
    with expect.no_effect(world, "D/O"):
        expect("M at p+P", world.map(address + world.page, granule, handle), Result.INVALID_VALUE, "D/O")
        expect("size G/2", world.map(address, granule // 2, handle), Result.INVALID_VALUE, "D/O")
        expect("M at 0", world.map(0, granule, handle), Result.INVALID_VALUE, "D/O")
        expect("size 0", world.map(address, 0, handle), Result.INVALID_VALUE, "D/O")
        expect("flags 1", world.map(address, granule, handle, flags=1), Result.INVALID_VALUE, "D/O")


def test_case_040_offset(world: World, expect: Expectations) -> None:
    """M with offset G on a 2G handle -> 1."""
    granule = world.granularity
    address = world.new_reservation(2 * granule)
    handle = world.new_chunk(2 * granule)
    with expect.no_effect(world, "D"):
        expect("M with offset G", world.map(address, granule, handle, offset=granule), Result.INVALID_VALUE, "D")


def test_case_041_no_implicit_replace(world: World, expect: Expectations) -> None:
    """M over a mapped range (same handle, other handle, partial overlap head/tail) -> 1, no effect."""
    granule = world.granularity
    start = world.new_reservation(6 * granule)
    mapped = start + 2 * granule
    handle, other = world.new_chunk(2 * granule), world.new_chunk(2 * granule)
    world.must("cuMemMap", world.map(mapped, 2 * granule, handle))
    world.must("cuMemSetAccess", world.access(mapped, 2 * granule))
    with expect.no_effect(world, "O"):
        expect("M of the same handle", world.map(mapped, 2 * granule, handle), Result.INVALID_VALUE, "O")
        expect("M of another handle", world.map(mapped, 2 * granule, other), Result.INVALID_VALUE, "O")
        expect("M over the head", world.map(mapped - granule, 2 * granule, other), Result.INVALID_VALUE, "O")
        expect("M over the tail", world.map(mapped + granule, 2 * granule, other), Result.INVALID_VALUE, "O")


def test_case_042_outside(world: World, expect: Expectations) -> None:
    """M outside any reservation; M half outside the end -> 1."""
    granule = world.granularity
    freed = world.new_reservation(4 * granule)
    address = world.new_reservation(2 * granule)
    handle = world.new_chunk(2 * granule)
    world.must("cuMemAddressFree", world.address_free(freed, 4 * granule))
    with expect.no_effect(world, "D"):
        expect("M where nothing is reserved", world.map(freed, granule, handle), Result.INVALID_VALUE, "D")
        code = world.map(address + granule, 2 * granule, handle)
        expect("M half outside the end", code, Result.INVALID_VALUE, "D")


def test_case_043_across_reservations(world: World, expect: Expectations) -> None:
    """M across two adjacent reservations -> strict 1 (report)."""
    neighbours = world.neighbours()
    if neighbours is None:
        pytest.skip("the driver honours no hint: there are no adjacent reservations to try")
    granule, (_, high, _) = world.granularity, neighbours
    handle = world.new_chunk(2 * granule)
    with expect.no_effect(world, "U"):
        code = world.map(high - granule, 2 * granule, handle)
        expect("M across two reservations", code, Result.INVALID_VALUE, "U")


def test_case_044_in_plain_memory(world: World, expect: Expectations) -> None:
    """M in a cuMemAlloc range -> 1."""
    granule = world.granularity
    allocation = world.new_allocation(4 * granule)
    inside = -(-allocation // granule) * granule
    handle = world.new_chunk(granule)
    with expect.no_effect(world, "I"):
        expect("M in a cuMemAlloc range", world.map(inside, granule, handle), Result.INVALID_VALUE, "I")


def test_case_045_holes(world: World, expect: Expectations) -> None:
    """Holes: map chunks 0, 2, 5 of an 8G reservation -> 0."""
    granule = world.granularity
    start = world.new_reservation(8 * granule)
    handles = {place: world.new_chunk(granule) for place in (5, 0, 2)}
    for place, handle in handles.items():
        expect(f"M of chunk {place}", world.map(start + place * granule, granule, handle), Result.SUCCESS, "O")
    for place in range(8):
        code, handle = world.retain(start + place * granule)
        want = (Result.SUCCESS, handles[place]) if place in handles else (Result.INVALID_VALUE, 0)
        expect.equal(f"what lies at place {place}", (code, handle), want, "O")
        if code == 0:
            world.must("cuMemRelease", world.release(handle))


def test_case_046_one_chunk_at_three_addresses(world: World, expect: Expectations) -> None:
    """Same handle at 3 VAs at once -> 0; write through one, sync, read through the others -> equal."""
    granule = world.granularity
    start = world.new_reservation(4 * granule)
    addresses = [start, start + 2 * granule, world.new_reservation(granule)]
    handle = world.new_chunk(granule)
    for address in addresses:
        expect("M of the same handle", world.map(address, granule, handle), Result.SUCCESS, "O")
        world.must("cuMemSetAccess", world.access(address, granule))
    for writer, text in zip(addresses, (b"first", b"second", b"third"), strict=True):
        world.must("write", world.write(writer + granule - 16, text))
        world.must("cuCtxSynchronize", world.driver.cuCtxSynchronize())
        for reader in addresses:
            got = world.read(reader + granule - 16, len(text))
            expect.equal("read through an alias", got, (Result.SUCCESS, text), "O")


def test_case_047_stitch(world: World, expect: Expectations) -> None:
    """Stitch: 8 handles created in scattered order mapped contiguously; one A over all; memset + copy across
    boundaries; verify."""
    granule, driver = world.granularity, world.driver
    start = world.new_reservation(8 * granule)
    places = list(range(8))
    random.Random(47).shuffle(places)
    handles = {place: world.new_chunk(granule) for place in places}
    for place in places:
        expect("M", world.map(start + place * granule, granule, handles[place]), Result.SUCCESS, "O")
    expect("A over all", world.access(start, 8 * granule), Result.SUCCESS, "O")

    # A window of 512 bytes over each of the 7 boundaries, each with its own value; then one is copied over another.
    for boundary in range(1, 8):
        window = start + boundary * granule - 256
        expect("memset across a boundary", driver.cuMemsetD8(window, boundary, 512), Result.SUCCESS, "O")
    text = bytes(range(256)) * 2
    expect("HtoD across a boundary", world.write(start + granule - 256, text), Result.SUCCESS, "O")
    code = driver.cuMemcpyDtoD(start + 5 * granule - 256, start + granule - 256, 512)
    expect("DtoD from a boundary to another", code, Result.SUCCESS, "O")
    world.must("cuCtxSynchronize", driver.cuCtxSynchronize())
    for boundary in range(1, 8):
        want = text if boundary in (1, 5) else bytes([boundary]) * 512
        got = world.read(start + boundary * granule - 256, 512)
        expect.equal(f"bytes over boundary {boundary}", got, (Result.SUCCESS, want), "O")

    # The same bytes through the single chunks, mapped a second time.
    view = world.new_reservation(granule)
    for place in range(1, 8):
        world.must("cuMemMap", world.map(view, granule, handles[place]))
        world.must("cuMemSetAccess", world.access(view, granule))
        want = text[256:] if place in (1, 5) else bytes([place]) * 256
        expect.equal(f"chunk {place} by itself", world.read(view, 256), (Result.SUCCESS, want), "O")
        world.must("cuMemUnmap", world.unmap(view, granule))


def test_case_048_handle_zero(world: World, expect: Expectations) -> None:
    """M with handle 0 -> 1."""
    address = world.new_reservation(world.granularity)
    with expect.no_effect(world, "O"):
        expect("M with handle 0", world.map(address, world.granularity, 0), Result.INVALID_VALUE, "O")
