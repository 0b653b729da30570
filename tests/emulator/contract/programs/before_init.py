"""Asks a driver that nobody has initialised."""

from __future__ import annotations

import json
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_uint64
from typing import Any

from helpers.abi_driver import Driver
from helpers.abi_functions import ALLOWED_BEFORE_INIT, FUNCTIONS
from helpers.abi_types import HostFunction, MemLocation, device_prop

UNTOUCHED = 77


def nothing(argtype: Any) -> object:
    """NULL or 0, as the argument's type has it."""
    if argtype in (HostFunction, MemLocation):
        return argtype()
    if argtype is c_char_p:
        return None
    return 0 if argtype in (c_int, c_uint64) or not isinstance(argtype, type(POINTER(c_int))) else None


def main() -> None:
    driver = Driver(sys.argv[1])
    answers: dict[str, object] = {}

    version = c_int(UNTOUCHED)
    answers["cuDriverGetVersion"] = driver.cuDriverGetVersion(byref(version))
    answers["version"] = version.value
    answers["cuDriverGetVersion(NULL)"] = driver.cuDriverGetVersion(None)

    count, handle, address = c_int(UNTOUCHED), c_uint64(UNTOUCHED), c_uint64(UNTOUCHED)
    prop = device_prop(0)
    answers["cuDeviceGetCount"] = driver.cuDeviceGetCount(byref(count))
    answers["cuMemCreate"] = driver.cuMemCreate(byref(handle), 2 << 20, byref(prop), 0)
    answers["cuMemAddressReserve"] = driver.cuMemAddressReserve(byref(address), 2 << 20, 0, 0, 0)
    answers["untouched"] = [count.value, handle.value, address.value] == [UNTOUCHED] * 3

    if driver.is_emulated:
        # Whatever else is wrong with the arguments, that nothing is initialised comes first. A real driver is not
        # asked: it may read a NULL before it looks.
        answers["others"] = {
            name: getattr(driver, name)(*[nothing(argtype) for argtype in argtypes])
            for name, (_, argtypes) in FUNCTIONS.items()
            if name not in ALLOWED_BEFORE_INIT
        }
    print(json.dumps(answers))


main()
