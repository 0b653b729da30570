"""Cases 60 to 66: unmapping."""

from __future__ import annotations

from ctypes import byref
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.abi_types import EmulatorRange, Result

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World


def mapped_chunks(world: World, places: list[int], granules: int) -> int:
    """A reservation with one chunk of one granule at each of the places; returns its address."""
    start = world.new_reservation(granules * world.granularity)
    for place in places:
        handle = world.new_chunk(world.granularity)
        world.must("cuMemMap", world.map(start + place * world.granularity, world.granularity, handle))
    return start


@pytest.mark.granularities
def test_case_060_part_of_a_mapping(world: World, expect: Expectations) -> None:
    """U(p, n-G), U(p+G, n-G), U(p, n-1), U(p, n+G) -> 1, mapping intact."""
    granule, size = world.granularity, 3 * world.granularity
    address = world.new_reservation(5 * granule)
    world.must("cuMemMap", world.map(address, size, world.new_chunk(size)))
    world.must("cuMemSetAccess", world.access(address, size))
    world.must("write", world.write(address, b"intact"))
    with expect.no_effect(world, "D/O"):
        expect("U(p, n-G)", world.unmap(address, size - granule), Result.INVALID_VALUE, "D/O")
        expect("U(p+G, n-G)", world.unmap(address + granule, size - granule), Result.INVALID_VALUE, "D/O")
        expect("U(p+G, G)", world.unmap(address + granule, granule), Result.INVALID_VALUE, "D/O")
        expect("U(p, n-1)", world.unmap(address, size - 1), Result.INVALID_VALUE, "D/O")
        expect("U(p, n+G)", world.unmap(address, size + granule), Result.INVALID_VALUE, "D/O")
    expect.equal("the bytes", world.read(address, 6), (Result.SUCCESS, b"intact"), "D/O")


@pytest.mark.granularities
def test_case_061_several_mappings(world: World, expect: Expectations) -> None:
    """U over 4 adjacent whole mappings in one call -> 0."""
    granule = world.granularity
    start = mapped_chunks(world, [0, 1, 2, 3, 4, 5], 6)
    expect("U over 4 of 6 mappings", world.unmap(start + granule, 4 * granule), Result.SUCCESS, "O")
    mapped = []
    for place in range(6):
        code, handle = world.retain(start + place * granule)
        if code == 0:
            mapped.append(place)
            world.must("cuMemRelease", world.release(handle))
    expect.equal("what is still mapped", mapped, [0, 5], "O")


@pytest.mark.granularities
def test_case_062_whole_and_half(world: World, expect: Expectations) -> None:
    """U over whole + half mapping -> 1 and nothing unmapped."""
    granule = world.granularity
    start = world.new_reservation(4 * granule)
    for place in (0, 2):
        chunk = world.new_chunk(2 * granule)
        world.must("cuMemMap", world.map(start + place * granule, 2 * granule, chunk))
    with expect.no_effect(world, "I"):
        expect("U over whole + half", world.unmap(start, 3 * granule), Result.INVALID_VALUE, "I")
        expect("U over half + whole", world.unmap(start + granule, 3 * granule), Result.INVALID_VALUE, "I")


@pytest.mark.granularities
def test_case_063_holes_and_nothing(world: World, expect: Expectations) -> None:
    """U over a range with a hole; U twice; U on never-mapped; U(0,.); U(.,0) -> 1."""
    granule = world.granularity
    start = mapped_chunks(world, [0, 2, 4], 6)
    world.must("cuMemUnmap", world.unmap(start + 4 * granule, granule))
    with expect.no_effect(world, "O"):
        expect("U over a hole", world.unmap(start, 3 * granule), Result.INVALID_VALUE, "O")
        expect("U twice", world.unmap(start + 4 * granule, granule), Result.INVALID_VALUE, "O")
        expect("U on never-mapped", world.unmap(start + 5 * granule, granule), Result.INVALID_VALUE, "O")
        expect("U(0, G)", world.unmap(0, granule), Result.INVALID_VALUE, "O")
        expect("U(p, 0)", world.unmap(start, 0), Result.INVALID_VALUE, "O")


@pytest.mark.granularities
def test_case_064_across_reservations(world: World, expect: Expectations) -> None:
    """U across two reservations -> strict 1 (report)."""
    neighbours = world.neighbours()
    if neighbours is None:
        pytest.skip("the driver honours no hint: there are no adjacent reservations to try")
    granule, (_, high, _) = world.granularity, neighbours
    for address in (high - granule, high):
        world.must("cuMemMap", world.map(address, granule, world.new_chunk(granule)))
    with expect.no_effect(world, "O/U"):
        expect("U across two reservations", world.unmap(high - granule, 2 * granule), Result.INVALID_VALUE, "O/U")


@pytest.mark.emulator_only("unmapping memory in use is undefined on a real driver")
@pytest.mark.parametrize("work", ["memset", "copy from", "copy to", "kernel"])
def test_case_065_in_use(work: str, world: World, expect: Expectations) -> None:
    """U while a queued copy/kernel uses the range -> CV; after event synchronise -> 0."""
    granule, driver = world.granularity, world.driver
    address, _ = world.new_mapping(granule)
    other = world.new_allocation(4096)
    stream, event = world.new_stream(), world.new_event()
    with world.blocked(stream) as gate:
        if work == "memset":
            code = driver.cuMemsetD8Async(address + granule - 512, 1, 512, stream)
        elif work == "copy from":
            code = driver.cuMemcpyDtoDAsync(other, address, 4096, stream)
        elif work == "copy to":
            code = driver.cuMemcpyDtoDAsync(address, other, 4096, stream)
        else:
            used = EmulatorRange(address, granule, 1)
            code = driver.memlakeEmulatorLaunch(stream, b"fill", byref(used), 1)
        world.must(f"queueing the {work}", code)
        world.must("cuEventRecord", driver.cuEventRecord(event, stream))
        with expect.no_effect(world, "O"):
            expect.violation("U while queued work uses the range", world.unmap(address, granule), "O")
        gate.set()
        world.must("cuEventSynchronize", driver.cuEventSynchronize(event))
        expect("U after the event", world.unmap(address, granule), Result.SUCCESS, "O")


@pytest.mark.emulator_only("lowering access to memory in use is undefined on a real driver")
def test_case_065_lowering_access_in_use(world: World, expect: Expectations) -> None:
    """U while a queued copy/kernel uses the range -> CV; the same for lowering access (A9). Other ranges are free to
    go."""
    granule, driver = world.granularity, world.driver
    address, _ = world.new_mapping(granule)
    unused, _ = world.new_mapping(granule)
    stream = world.new_stream()
    with world.blocked(stream) as gate:
        world.must("cuMemsetD8Async", driver.cuMemsetD8Async(address, 1, 512, stream))
        with expect.no_effect(world, "O"):
            expect.violation("A(NONE) while queued work uses the range", world.access(address, granule, 0), "O")
            expect.violation("A(READ) while queued work writes", world.access(address, granule, 1), "O")
        expect("A(READWRITE) again", world.access(address, granule), Result.SUCCESS, "O")
        expect("U of a range nobody uses", world.unmap(unused, granule), Result.SUCCESS, "O")
        gate.set()
        world.must("cuStreamSynchronize", driver.cuStreamSynchronize(stream))
        expect("A(NONE) afterwards", world.access(address, granule, 0), Result.SUCCESS, "O")


def test_case_066_no_leak(world: World, expect: Expectations) -> None:
    """10 000 x (M,A,U) on the same VA: no leak of fds, VMAs, memory."""
    granule, rounds = world.granularity, 10_000
    address = world.new_reservation(granule)
    handle = world.new_chunk(granule)

    def map_and_unmap() -> int:
        return world.map(address, granule, handle) or world.access(address, granule) or world.unmap(address, granule)

    def held() -> dict[str, int]:
        resident_pages = int(Path("/proc/self/statm").read_text().split()[1])
        return {
            "file descriptors": len(list(Path("/proc/self/fd").iterdir())),
            "kernel mappings": len(Path("/proc/self/maps").read_text().splitlines()),
            "resident MiB": resident_pages * world.page >> 20,
        }

    for _ in range(100):  # whatever is made once is made now
        world.must("M, A, U", map_and_unmap())
    free, before = world.free_memory(), held()
    codes = {map_and_unmap() for _ in range(rounds)}
    after = held()
    expect.equal("answers", codes, {0}, "I")
    expect.equal("free memory", world.free_memory(), free, "I")
    # Python's own heap may take or give back a mapping or two; a leak would show once in every round.
    for what, count in before.items():
        expect.that(f"no leak of {what}", after[what] - count < rounds // 1000, "I")
