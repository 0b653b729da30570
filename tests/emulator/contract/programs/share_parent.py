"""Exports memory, hands the descriptor to a child process over a socket (SCM_RIGHTS), and exits before the child."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from helpers.abi_driver import Driver
from helpers.abi_process import world_of_this_process
from helpers.abi_types import HANDLE_POSIX_FD


def main() -> None:
    world = world_of_this_process(Driver(sys.argv[1]))
    granule = world.granularity
    handle = world.new_chunk(granule, handle_types=HANDLE_POSIX_FD)
    address = world.new_reservation(granule)
    world.must("cuMemMap", world.map(address, granule, handle))
    world.must("cuMemSetAccess", world.access(address, granule))
    world.must("write", world.write(address, b"written by the parent"))
    code, fd = world.export(handle)
    world.must("cuMemExportToShareableHandle", code)

    ours, theirs = socket.socketpair()
    with theirs:
        child = [sys.executable, str(Path(__file__).with_name("share_child.py")), sys.argv[1], str(theirs.fileno())]
        process = subprocess.Popen(child, pass_fds=[theirs.fileno()])
    socket.send_fds(ours, [b"here"], [fd])
    if ours.recv(4) != b"read":
        raise SystemExit(f"the child ended with {process.wait()}")
    # Nothing is released: the driver must cope with a process that just ends. The child reports on our stdout.
    os._exit(0)


main()
