"""Imports what its parent sent, reads it, outlives the parent, and reads it again."""

from __future__ import annotations

import json
import os
import socket
import sys
import time

from helpers.abi_driver import Driver
from helpers.abi_process import world_of_this_process


def main() -> None:
    parent = os.getppid()
    world = world_of_this_process(Driver(sys.argv[1]))
    granule = world.granularity
    answers: dict[str, object] = {}
    with socket.socket(fileno=int(sys.argv[2])) as to_parent:
        _, fds, _, _ = socket.recv_fds(to_parent, 4, 1)
        answers["import"], handle = world.import_fd(fds[0])
        first, second = world.new_reservation(granule), world.new_reservation(granule)
        world.must("cuMemMap", world.map(first, granule, handle))
        world.must("cuMemSetAccess", world.access(first, granule))
        answers["read"] = world.read(first, 21)[1].decode()
        to_parent.sendall(b"read")
        to_parent.recv(1)  # returns when the parent's end is closed: the parent has ended
    while os.getppid() == parent:  # its files are closed a moment before it is gone
        time.sleep(0.001)
    answers["read_after_exit"] = world.read(first, 21)[1].decode()
    answers["write_after_exit"] = world.write(first, b"written by the child ")
    answers["import_after_exit"], again = world.import_fd(fds[0])
    world.must("cuMemMap", world.map(second, granule, again))
    world.must("cuMemSetAccess", world.access(second, granule))
    answers["read_of_second_import"] = world.read(second, 21)[1].decode()
    print(json.dumps(answers))


main()
