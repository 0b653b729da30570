"""Two processes, one gigabyte: no copy, and either may end first.

Runs without a GPU, on an emulated one:

    python examples/share_a_buffer.py

1. Allocate a buffer that can be shared, and start another process with the share as its argument.
2. The other process opens it, reads, and writes its answer into the same memory.
3. Close the buffer here: the other process still has its bytes. When it is gone, so is the memory.
"""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING

import numpy as np

import memlake
from memlake.units import format_bytes

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from memlake.sharing import Share

COUNT = 1_000_000


def double(share: Share, parent: Connection) -> None:
    """What the other process does."""
    gpus = memlake.emulate(memory="4GiB")  # emulated devices are made in both; a GPU is simply there
    with share:
        shared = share.open()
    numbers = np.empty(COUNT, np.int64)
    shared.copy_to(numbers)
    shared.copy_from(2 * numbers, offset="512MiB")
    parent.send((shared.nbytes, len(shared.pieces)))
    parent.recv()  # meanwhile the first process closes its buffer
    shared.copy_to(numbers)
    parent.send(int(numbers.sum()))
    shared.close()
    gpus.close()


def main() -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with memlake.emulate(memory="4GiB") as gpus, memlake.Pool(gpus[0]) as pool:
        buffer = pool.allocate("1GiB", shareable=True)
        buffer.copy_from(np.arange(COUNT))
        with buffer.export() as share:
            print(f"1. {format_bytes(share.nbytes)} in {len(share.chunk_sizes)} chunks go to another process.")
            process = context.Process(target=double, args=(share, theirs))
            process.start()
            nbytes, pieces = ours.recv()
        print(f"2. It sees {format_bytes(nbytes)} in {pieces} piece. ", end="")
        doubled = np.empty(COUNT, np.int64)
        buffer.copy_to(doubled, offset="512MiB")
        print(f"What it wrote is here: {doubled[:4].tolist()} ...")
        assert (doubled == 2 * np.arange(COUNT)).all()

        buffer.close()
        pool.trim()
        held = format_bytes(pool.stats().held)
        ours.send("closed")
        print(f"3. The buffer is closed and the pool holds {held}; ", end="")
        print(f"the other process still reads its bytes: {ours.recv() == np.arange(COUNT).sum()}.")
        process.join()
        left = gpus[0].total_memory - gpus[0].free_memory
        print(f"   It has ended, and {format_bytes(left)} are left on the device.")


if __name__ == "__main__":
    main()
