"""Cases 14 to 24: reserving and freeing addresses."""

from __future__ import annotations

from ctypes import byref, c_size_t, c_uint64
from typing import TYPE_CHECKING

import pytest

from helpers.abi_types import Result

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

pytestmark = pytest.mark.granularities


def test_case_014_is_aligned_to_the_granularity(world: World, expect: Expectations) -> None:
    """R(16G) -> 0; address % G == 0 although alignment = 0."""
    code, address = world.reserve(16 * world.granularity)
    expect("R(16G)", code, Result.SUCCESS, "O")
    expect.equal("address modulo G", address % world.granularity, 0, "O")
    expect.that("the address is not 0", address != 0, "I")


def test_case_015_alignment(world: World, expect: Expectations) -> None:
    """Alignment 2, 64, 4096 -> 0 and result mappable; alignment 1 GiB -> 0 and aligned."""
    handle = world.new_chunk(world.granularity)
    for alignment in (2, 64, 4096):
        code, address = world.reserve(world.granularity, alignment)
        expect(f"alignment {alignment}", code, Result.SUCCESS, "O")
        expect(f"M there, alignment {alignment}", world.map(address, world.granularity, handle), Result.SUCCESS, "O")
    code, address = world.reserve(world.granularity, 1 << 30)
    expect("alignment 1 GiB", code, Result.SUCCESS, "D")
    expect.equal("address modulo 1 GiB", address % (1 << 30), 0, "D")


def test_case_016_bad_sizes_and_alignment(world: World, expect: Expectations) -> None:
    """Alignment 3 -> 2; size 0 -> 2; size P+1 -> 2."""
    with expect.no_effect(world, "I"):
        expect("alignment 3", world.reserve(world.granularity, 3)[0], Result.OUT_OF_MEMORY, "O")
        expect("size 0", world.reserve(0)[0], Result.OUT_OF_MEMORY, "O")
        expect("size P+1", world.reserve(world.page + 1)[0], Result.OUT_OF_MEMORY, "O")


def test_case_017_null_out_and_flags(world: World, expect: Expectations) -> None:
    """Out NULL -> 1; flags 1 -> 1."""
    address = c_uint64(77)
    with expect.no_effect(world, "I"):
        code = world.driver.cuMemAddressReserve(None, world.granularity, 0, 0, 0)
        expect("out NULL", code, Result.INVALID_VALUE, "O")
        code = world.driver.cuMemAddressReserve(byref(address), world.granularity, 0, 0, 1)
        expect("flags 1", code, Result.INVALID_VALUE, "D")
    expect.equal("the out-parameter", address.value, 77, "I")


def test_case_018_too_large(world: World, expect: Expectations) -> None:
    """Size 2^62 -> 2."""
    expect("R(2^62)", world.reserve(1 << 62)[0], Result.OUT_OF_MEMORY, "D")


def test_case_019_taken_hint(world: World, expect: Expectations) -> None:
    """Hint = address of an existing reservation -> 0 with a different address."""
    taken = world.new_reservation(2 * world.granularity)
    for what, hint in (("start", taken), ("middle", taken + world.granularity)):
        code, address = world.reserve(2 * world.granularity, hint=hint)
        expect(f"hint at the {what} of a reservation", code, Result.SUCCESS, "D")
        outside = address + 2 * world.granularity <= taken or address >= taken + 2 * world.granularity
        expect.that("the address is elsewhere", outside, "D")


def test_case_020_free_exactly_as_reserved(world: World, expect: Expectations) -> None:
    """F with size-P, size+P, interior pointer -> 1, then exact F -> 0, then again -> 1."""
    size, page = 4 * world.granularity, world.page
    address = world.new_reservation(size)
    with expect.no_effect(world, "D/O"):
        expect("F(p, size-P)", world.address_free(address, size - page), Result.INVALID_VALUE, "D/O")
        expect("F(p, size+P)", world.address_free(address, size + page), Result.INVALID_VALUE, "D/O")
        expect("F(p+P, size)", world.address_free(address + page, size), Result.INVALID_VALUE, "D/O")
        expect("F(p+P, size-P)", world.address_free(address + page, size - page), Result.INVALID_VALUE, "D/O")
        half = world.address_free(address, size // 2)
        expect("F of the first half", half, Result.INVALID_VALUE, "D/O")
    expect("exact F", world.address_free(address, size), Result.SUCCESS, "D/O")
    expect("F again", world.address_free(address, size), Result.INVALID_VALUE, "I")


def test_case_021_adjacent_reservations_are_two(world: World, expect: Expectations) -> None:
    """Two adjacent reservations (by hint, if the hint was honoured): F(p, n1+n2) -> 1; each alone -> 0."""
    neighbours = world.neighbours()
    if neighbours is None:
        pytest.skip("the driver honours no hint: there are no adjacent reservations to try")
    low, high, size = neighbours
    with expect.no_effect(world, "O"):
        expect("F over both", world.address_free(low, 2 * size), Result.INVALID_VALUE, "O")
    expect("F of the first", world.address_free(low, size), Result.SUCCESS, "O")
    expect("F of the second", world.address_free(high, size), Result.SUCCESS, "O")


def test_case_022_free_nothing(world: World, expect: Expectations) -> None:
    """F(0,n) -> 1; F(p,0) -> 1."""
    address = world.new_reservation(world.granularity)
    with expect.no_effect(world, "O"):
        expect("F(0, n)", world.address_free(0, world.granularity), Result.INVALID_VALUE, "O")
        expect("F(p, 0)", world.address_free(address, 0), Result.INVALID_VALUE, "O")


def test_case_023_free_while_mapped(world: World, expect: Expectations) -> None:
    """R; M; F while mapped -> 1, no effect; U; F -> 0."""
    size = 2 * world.granularity
    address, _ = world.new_mapping(size)
    with expect.no_effect(world, "U"):
        expect("F while mapped", world.address_free(address, size), Result.INVALID_VALUE, "U")
    expect("U", world.unmap(address, size), Result.SUCCESS, "U")
    expect("F afterwards", world.address_free(address, size), Result.SUCCESS, "U")


def test_case_024_addresses_are_not_memory(world: World, expect: Expectations) -> None:
    """Reserve 4x device memory -> 0 (VA is not device memory; cuMemGetInfo unchanged)."""
    total = c_size_t(0)
    world.must("cuDeviceTotalMem", world.driver.cuDeviceTotalMem(byref(total), world.device))
    free = world.free_memory()
    whole_granules = -(-total.value // world.granularity) * world.granularity
    expect("R(4 x device memory)", world.reserve(4 * whole_granules)[0], Result.SUCCESS, "O")
    expect.equal("free memory", world.free_memory(), free, "O")
