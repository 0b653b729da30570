"""A world for a program that runs by itself: one device, made if the driver is the emulator."""

from __future__ import annotations

import json
from ctypes import byref, c_int
from typing import TYPE_CHECKING

from helpers.abi_types import result_name
from helpers.abi_world import World

if TYPE_CHECKING:
    from helpers.abi_driver import Driver


def add_devices(driver: Driver, wanted: dict[str, object]) -> tuple[int, int]:
    """Emulated devices, small ones unless the caller says otherwise: first ordinal and count."""
    config = ",".join(f"{key}={value}" for key, value in ({"memory": "256MiB"} | wanted).items())
    first, count = c_int(-1), c_int(-1)
    code = driver.memlakeEmulatorAddDevices(config.encode(), byref(first), byref(count))
    if code != 0:
        raise AssertionError(f"the emulator refused {config!r}: {driver.last_error()}")
    initialize(driver)
    return first.value, count.value


def initialize(driver: Driver) -> None:
    """cuInit, as often as one likes."""
    if (code := driver.cuInit(0)) != 0:
        raise AssertionError(f"cuInit answered {result_name(code)}: {driver.last_error()}")


def world_of_this_process(driver: Driver) -> World:
    """One device with its primary context current."""
    if driver.is_emulated:
        first, _ = add_devices(driver, {})
        return World(driver, [first])
    initialize(driver)
    return World(driver, [0])


def end_with(answers: dict[str, object], world: World) -> None:
    """Gives everything back and prints the answers; what is left behind ends the program with an error."""
    if problems := world.close(0):
        raise SystemExit("\n".join(problems))
    print(json.dumps(answers))
