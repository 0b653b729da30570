"""Two GPUs of 8 GiB, one pool, and a buffer of 10 GiB.

Runs without a GPU, on emulated ones:

    python examples/two_gpus_one_buffer.py

1. Make one pool of both GPUs and ask for more than either has: one range of addresses, memory of both behind it.
2. Write across the border between the two, and read it back.
3. Fill the pool, free every other buffer, and ask for more than is free side by side: chunks move, no byte is copied.
"""

from __future__ import annotations

import numpy as np

import memlake
from memlake.units import format_bytes

GIB = 2**30


def main() -> None:
    with memlake.emulate(devices=2, memory="8GiB") as gpus, memlake.Pool(list(gpus)) as pool:
        with pool.allocate("10GiB") as buffer:
            print(f"1. {format_bytes(buffer.nbytes)} in one range of addresses, at {buffer.ptr:#x}:\n")
            for piece in buffer.pieces:
                begin, size = format_bytes(piece.offset), format_bytes(piece.nbytes)
                print(f"   GPU {gpus.index(piece.device)}: {size} from offset {begin}")

            border = buffer.pieces[1].offset
            message = np.frombuffer(b"half here, half there", np.uint8)
            view = buffer.numpy()
            view[border - 10 : border - 10 + len(message)] = message
            read = bytes(view[border - 10 : border - 10 + len(message)]).decode()
            del view
            print(f'\n2. Written across the border and read back: "{read}"\n')

        buffers = [pool.allocate("512MiB") for _ in range(32)]
        for other in buffers[1::2]:
            other.close()
        stats = pool.stats()
        free = format_bytes(stats.held - stats.live)
        print(f"3. {free} are free, at most {format_bytes(stats.largest_contiguous)} of it side by side.")
        with memlake.driver.counting(gpus[0]) as counts, pool.allocate("6GiB") as large:
            moved = pool.stats().policy_counters["moved_chunks"]
            made = counts.calls.get("cuMemCreate", 0)
            print(f"   {format_bytes(large.nbytes)} asked for: {moved} chunks moved, {made} made anew; all is sound.")
            pool.check()
        for other in buffers[::2]:
            other.close()


if __name__ == "__main__":
    main()
