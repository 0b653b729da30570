"""A GPU is full of buffers, every other one is closed, and the program needs one large buffer.

Runs without a GPU, on an emulated one:

    python examples/gather_scattered_memory.py

1. The same program runs under PyTorch's two allocators and under lake. It allocates buffers of 6 to 10 MiB until the
   GPU is full, closes every other buffer, and asks for one buffer of 384 MiB.
2. Two pictures show the addresses of lake's pool, before the request and after it.

PyTorch's two allocators take buffers of this size from units of 20 MiB. They cannot release a unit while a buffer uses
a part of it. If all buffers are much larger than 20 MiB, these allocators serve more of such requests. lake runs at its
lowest level of aliasing here: it maps each chunk once, and whole.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np

import memlake
from memlake.policies import LakeOptions
from memlake.tables.terminal import print_table
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.pool.pool_snapshot import BlockInfo
    from memlake.pool.stats import PoolStats

MIB = 2**20
MEMORY = 1024 * MIB
SIZES = 6 * MIB, 10 * MIB
WANTED = 384 * MIB
POLICIES = memlake.policy("caching"), memlake.policy("expandable"), LakeOptions(aliasing="none")

PER_CHARACTER = 2 * MIB
PER_LINE = 64 * PER_CHARACTER
CHARACTERS = {"live": "#", "free": ".", "unmapped": " "}
NEW = "O"


def main() -> None:
    memory, smallest, largest, wanted = map(format_bytes, (MEMORY, *SIZES, WANTED))
    print(f"A program fills a GPU of {memory} with buffers of {smallest} to {largest}. It closes every other buffer.")
    print(f"Then it asks for one buffer of {wanted}:\n")
    rows, pictures = [], []
    for policy in POLICIES:
        with memlake.emulate(memory=MEMORY) as (gpu,), memlake.Pool(gpu, policy) as pool:
            kept = scatter(pool)
            before, blocks = pool.stats(), blocks_of(pool)
            try:
                new = pool.allocate(WANTED)
            except memlake.OutOfMemory:
                outcome = "out of memory"
            else:
                outcome = "ok"
                pictures = explain(pool, before, blocks, new)
                new.close()
            sizes = before.live, before.free, before.largest_contiguous
            rows.append([policy.name, outcome, *map(format_bytes, sizes)])
            check_and_close(kept)
    print_table(["policy", "outcome", "in use", "free", "largest free block"], rows, left=2)
    print("\n".join(pictures))
    assert [row[1] for row in rows] == ["out of memory", "out of memory", "ok"]


def scatter(pool: memlake.Pool) -> list[memlake.Buffer]:
    """Fills the pool's GPU, closes every other buffer, and writes a number into each buffer that stays."""
    rng = random.Random(1)
    buffers: list[memlake.Buffer] = []
    try:
        while True:
            buffers.append(pool.allocate(rng.randrange(*SIZES, 512)))
    except memlake.OutOfMemory:
        buffers.sort(key=lambda buffer: buffer.address)
    for buffer in buffers[::2]:
        buffer.close()
    kept = buffers[1::2]
    for number, buffer in enumerate(kept):
        buffer.copy_from(np.array([number]))
    return kept


def check_and_close(kept: list[memlake.Buffer]) -> None:
    """Reads the numbers back at the addresses where they were written."""
    for number, buffer in enumerate(kept):
        found = np.empty(1, dtype=np.int64)
        buffer.copy_to(found)
        assert found[0] == number
        buffer.close()


def explain(pool: memlake.Pool, before: PoolStats, blocks: list[BlockInfo], new: memlake.Buffer) -> list[str]:
    """Returns the lines about a request that was served: the pictures and the figures."""
    after, blocks_after = pool.stats(), blocks_of(pool)
    mapped = [block.address for block in blocks_after if block.state != "unmapped"]
    end = max(block.address + block.nbytes for block in blocks_after)
    begin = end + (min(mapped) - end) // PER_LINE * PER_LINE  # a whole number of lines
    calls = {name: count - before.driver_calls.get(name, 0) for name, count in after.driver_calls.items()}
    told = ", ".join(f"{count} x {name}" for name, count in calls.items() if count and name.startswith("cuMem"))
    return [
        "",
        f"The addresses of lake's pool before the request ({format_bytes(PER_CHARACTER)} per character, "
        f"{format_bytes(PER_LINE)} per line):",
        "# in use, . free, blank: addresses without memory",
        "",
        *picture(blocks, begin, end, range(0)),
        "",
        f"After the request. {NEW} is the new buffer, one contiguous range made of memory that was scattered:",
        "",
        *picture(blocks_after, begin, end, range(new.address, new.address + new.nbytes)),
        "",
        f"lake mapped {after.policy_counters['moved_chunks']} free chunks at the new addresses and created "
        f"{calls.get('cuMemCreate', 0)}. The buffers in use kept their",
        f"addresses and contents. The driver calls ({told})",
        f"take about {after.modelled_driver_ms - before.modelled_driver_ms:.1f} ms on an A100. "
        "A dot that is left was not needed, or shares a chunk with a buffer in use.",
    ]


def blocks_of(pool: memlake.Pool) -> list[BlockInfo]:
    return [block for segment in pool.snapshot().segments for block in segment.blocks]


def picture(blocks: list[BlockInfo], begin: int, end: int, new: range) -> list[str]:
    """Draws the addresses from `begin` to `end`. A character shows what most of its bytes are."""
    shown = "".join(character_at(blocks, at, new) for at in range(begin, end, PER_CHARACTER))
    width = PER_LINE // PER_CHARACTER
    return [f"   |{shown[i : i + width]}|" for i in range(0, len(shown), width)]


def character_at(blocks: list[BlockInfo], address: int, new: range) -> str:
    """The character for the bytes from an address on."""
    share: dict[str, int] = {}
    for block in blocks:
        common = min(block.address + block.nbytes, address + PER_CHARACTER) - max(block.address, address)
        if common > 0:
            character = NEW if block.address in new else CHARACTERS[block.state]
            share[character] = share.get(character, 0) + common
    return max(share, key=lambda character: share[character])


if __name__ == "__main__":
    main()
