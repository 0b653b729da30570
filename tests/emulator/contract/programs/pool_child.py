"""Imports the pool and the pointer its parent sent, uses them, and frees them before the parent does."""

from __future__ import annotations

import socket
import sys

from helpers.abi_driver import Driver
from helpers.abi_pools import PoolDesk
from helpers.abi_process import end_with, world_of_this_process


def main() -> None:
    world = world_of_this_process(Driver(sys.argv[1]))
    pools = PoolDesk(world)
    stream = world.new_stream()
    answers: dict[str, object] = {}
    with socket.socket(fileno=int(sys.argv[2])) as to_parent:
        data, fds, _, _ = socket.recv_fds(to_parent, 64, 1)
    answers["import"], pool = pools.import_fd(fds[0])
    answers["import_pointer"], address = pools.import_pointer(pool, data)
    answers["read"] = world.read(address + 60_000, 21)[1].decode()
    answers["allocate"], _ = pools.allocate(64, stream, pool)
    answers["set_current"] = world.driver.cuDeviceSetMemPool(world.device, pool)
    answers["held_before_trim"] = pools.held(pool)
    answers["trim"] = world.driver.cuMemPoolTrimTo(pool, 0)
    answers["held_after_trim"] = pools.held(pool)
    answers["write"] = world.write(address + 60_000, b"written by the child ")
    answers["free"] = pools.free(address, stream)
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
    answers["destroy"] = pools.destroy(pool)
    pools.close()
    end_with(answers, world)


main()
