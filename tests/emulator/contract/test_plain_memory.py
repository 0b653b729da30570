"""Case 88: cuMemAlloc and cuMemFree."""

from __future__ import annotations

from ctypes import byref, c_uint64
from typing import TYPE_CHECKING

from helpers.abi_types import Result

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World


def test_case_088_alloc_and_free(world: World, expect: Expectations) -> None:
    """cuMemAlloc(0) -> 1; cuMemFree(0) -> 0; cuMemFree(p+256) -> 1."""
    address = c_uint64(77)
    with expect.no_effect(world, "I"):
        expect("cuMemAlloc(0)", world.driver.cuMemAlloc(byref(address), 0), Result.INVALID_VALUE, "D/O")
    expect.equal("the out-parameter", address.value, 77, "I")
    expect("cuMemFree(0)", world.free_allocation(0), Result.SUCCESS, "D/O")
    allocation = world.new_allocation(1 << 20)
    expect.equal("address modulo 256", allocation % 256, 0, "D/O")
    with expect.no_effect(world, "I"):
        expect("cuMemFree(p+256)", world.free_allocation(allocation + 256), Result.INVALID_VALUE, "D/O")
    expect("cuMemFree(p)", world.free_allocation(allocation), Result.SUCCESS, "D/O")
