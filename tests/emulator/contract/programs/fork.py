"""Uses the driver, forks, and asks it again in the child and in the parent."""

from __future__ import annotations

import json
import os
import sys
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from typing import TYPE_CHECKING

from helpers.abi_driver import Driver
from helpers.abi_process import world_of_this_process
from helpers.abi_types import device_prop

if TYPE_CHECKING:
    from helpers.abi_world import World

TEXT = b"written before the fork"


def ask_in_child(world: World, address: int, handle: int) -> dict[str, int]:
    """One call of each kind. Nothing here may touch what the parent has."""
    driver, granule, prop = world.driver, world.granularity, device_prop(world.device)
    number, size, value, context = c_int(), c_size_t(), c_uint64(), c_void_p()
    return {
        "cuInit": driver.cuInit(0),
        "cuDeviceGetCount": driver.cuDeviceGetCount(byref(number)),
        "cuCtxGetCurrent": driver.cuCtxGetCurrent(byref(context)),
        "cuMemGetInfo": driver.cuMemGetInfo(byref(size), byref(size)),
        "cuMemAddressReserve": driver.cuMemAddressReserve(byref(value), granule, 0, 0, 0),
        "cuMemCreate": driver.cuMemCreate(byref(value), granule, byref(prop), 0),
        "cuMemcpyHtoD": driver.cuMemcpyHtoD(address, b"child", 5),
        "cuMemUnmap": driver.cuMemUnmap(address, granule),
        "cuMemRelease": driver.cuMemRelease(handle),
        "cuCtxSynchronize": driver.cuCtxSynchronize(),
    }


def main() -> None:
    world = world_of_this_process(Driver(sys.argv[1]))
    granule = world.granularity
    address, handle = world.new_mapping(granule)
    world.must("write", world.write(address, TEXT))

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, json.dumps(ask_in_child(world, address, handle)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        told = answers.read()
    os.waitpid(child, 0)

    code, data = world.read(address, len(TEXT))
    parent = {"cuMemcpyDtoH": code, "cuMemcpyHtoD": world.write(address, TEXT)}
    parent["cuMemCreate"], _ = world.create(granule)
    parent["cuMemUnmap"] = world.unmap(address, granule)
    parent["cuMemRelease"] = world.release(handle)
    print(json.dumps({"child": json.loads(told), "parent": parent, "parent_bytes": data.decode()}))


main()
