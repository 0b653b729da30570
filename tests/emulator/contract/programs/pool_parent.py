"""Exports a pool and a pointer to a child process, reads what the child wrote, and frees last, as the rules are."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from helpers.abi_driver import Driver
from helpers.abi_pools import PoolDesk
from helpers.abi_process import end_with, world_of_this_process
from helpers.abi_types import HANDLE_POSIX_FD


def main() -> None:
    world = world_of_this_process(Driver(sys.argv[1]))
    pools = PoolDesk(world)
    stream, pool = world.new_stream(), pools.new_pool(handle_types=HANDLE_POSIX_FD)
    pools.new(12, stream, pool)  # so that the exported one does not begin where the pool does
    address = pools.new(70_000, stream, pool)
    world.must("cuStreamSynchronize", world.driver.cuStreamSynchronize(stream))
    world.must("write", world.write(address + 60_000, b"written by the parent"))
    code, fd = pools.export(pool)
    world.must("cuMemPoolExportToShareableHandle", code)
    code, data = pools.export_pointer(address)
    world.must("cuMemPoolExportPointer", code)

    ours, theirs = socket.socketpair()
    with theirs:
        child = [sys.executable, str(Path(__file__).with_name("pool_child.py")), sys.argv[1], str(theirs.fileno())]
        process = subprocess.Popen(child, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE, text=True)
    socket.send_fds(ours, [data], [fd])
    os.close(fd)
    printed, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"the child ended with {process.returncode}")
    answers = json.loads(printed)
    answers["read_by_parent"] = world.read(address + 60_000, 21)[1].decode()
    answers["free_by_parent"] = pools.free(address, stream)
    pools.close()
    end_with(answers, world)


main()
