"""Cases 10 to 13: the granularity query."""

from __future__ import annotations

from ctypes import byref, c_size_t
from typing import TYPE_CHECKING

import pytest

from helpers.abi_types import GRANULARITY_MINIMUM, GRANULARITY_RECOMMENDED, MemAllocationProp, Result, device_prop

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World


def ask(world: World, prop: MemAllocationProp, option: int = GRANULARITY_MINIMUM) -> tuple[int, int]:
    """The answer and the granularity."""
    size = c_size_t(0)
    return world.driver.cuMemGetAllocationGranularity(byref(size), byref(prop), option), size.value


@pytest.mark.granularities
def test_case_010_powers_of_two(world: World, expect: Expectations) -> None:
    """MINIMUM and RECOMMENDED -> 0, powers of two, RECOMMENDED >= MINIMUM, MINIMUM % P == 0."""
    minimum_code, minimum = ask(world, device_prop(world.device), GRANULARITY_MINIMUM)
    recommended_code, recommended = ask(world, device_prop(world.device), GRANULARITY_RECOMMENDED)
    expect("MINIMUM", minimum_code, Result.SUCCESS, "D")
    expect("RECOMMENDED", recommended_code, Result.SUCCESS, "D")
    for name, size in (("MINIMUM", minimum), ("RECOMMENDED", recommended)):
        expect.that(f"{name} is a power of two", size.bit_count() == 1, "D")
    expect.that("RECOMMENDED is at least MINIMUM", recommended >= minimum, "D")
    expect.equal("MINIMUM modulo the page size", minimum % world.page, 0, "D")


@pytest.mark.emulator_only("the granularity of a real device is not ours to choose")
@pytest.mark.world(granularity="64KiB", recommended="2MiB")
def test_case_010_is_as_configured(world: World, expect: Expectations) -> None:
    """MINIMUM and RECOMMENDED -> 0: those the device was made with."""
    expect.equal("MINIMUM", ask(world, device_prop(world.device))[1], 64 << 10, "D")
    expect.equal("RECOMMENDED", ask(world, device_prop(world.device), GRANULARITY_RECOMMENDED)[1], 2 << 20, "D")


def test_case_011_bad_option_and_out(world: World, expect: Expectations) -> None:
    """Option 0xff -> 1; out NULL -> 1."""
    prop = device_prop(world.device)
    code, size = ask(world, prop, 0xFF)
    expect("option 0xff", code, Result.INVALID_VALUE, "O")
    expect.equal("the out-parameter", size, 0, "I")
    code = world.driver.cuMemGetAllocationGranularity(None, byref(prop), GRANULARITY_MINIMUM)
    expect("out NULL", code, Result.INVALID_VALUE, "O")


def test_case_012_prop_is_not_validated(world: World, expect: Expectations) -> None:
    """Prop with device id N, or type 0 -> 0 (not validated). The strict emulator adds a warning (A2.4)."""
    warnings = len(world.driver.ledger()["warnings"]) if world.driver.is_emulated else 0
    no_such_device, no_type, no_location = (device_prop(world.device) for _ in range(3))
    no_such_device.location.id = world.count
    no_type.type = 0
    no_location.location.type = 0
    props = {"device id N": no_such_device, "type 0": no_type, "location type 0": no_location}
    for what, prop in props.items():
        expect(f"prop with {what}", ask(world, prop)[0], Result.SUCCESS, "O")
    if world.driver.is_emulated:
        added = len(world.driver.ledger()["warnings"]) - warnings
        expect.equal("contract warnings in the ledger", added, len(props), "O")


@pytest.mark.emulator_only("a real driver crashes on a NULL prop")
@pytest.mark.parametrize("device_config", [{"profile": "strict"}, {"profile": "nvidia"}], indirect=True, ids=str)
def test_case_013_null_prop(world: World, expect: Expectations) -> None:
    """Prop NULL -> CV (driver crash: never run on hardware)."""
    size = c_size_t(77)
    code = world.driver.cuMemGetAllocationGranularity(byref(size), None, GRANULARITY_MINIMUM)
    expect.violation("prop NULL", code, "O")
    expect.equal("the out-parameter", size.value, 77, "I")
