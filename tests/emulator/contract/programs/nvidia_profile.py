"""Asks what the profile nvidia answers to calls that name no device. In a process of its own: such a call is judged
strictly as long as any strict device is open."""

from __future__ import annotations

import json
import sys
from ctypes import byref, c_size_t

from helpers.abi_driver import Driver
from helpers.abi_process import add_devices
from helpers.abi_types import GRANULARITY_MINIMUM, device_prop
from helpers.abi_world import World


def main() -> None:
    driver = Driver(sys.argv[1])
    first, _ = add_devices(driver, {"profile": "nvidia"})
    world = World(driver, [first])
    answers: dict[str, object] = {}

    no_such_device, no_type = device_prop(world.count), device_prop(first)
    no_type.type = 0
    for what, prop in (("device id N", no_such_device), ("type 0", no_type)):
        answers[what] = driver.cuMemGetAllocationGranularity(byref(c_size_t()), byref(prop), GRANULARITY_MINIMUM)
    answers["warnings"] = driver.ledger()["warnings"]

    free = world.new_reservation(world.granularity)
    world.must("cuMemAddressFree", world.address_free(free, world.granularity))
    answers["unaligned hint"], address = world.reserve(world.granularity, hint=free + 1)
    answers["address modulo G"] = address % world.granularity
    print(json.dumps(answers))


main()
