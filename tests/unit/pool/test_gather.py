"""Scattered memory is gathered: one request gets most of the free bytes of a device that was full.

Blocks that lie byte beside byte have ``1 - 2 MiB / m`` of their bytes in whole granules of 2 MiB, where m is their mean
size. So much, less a margin, must be had in one piece, by moving whole chunks only.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import memlake
from memlake.policies import LakeOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlake import Buffer, Device, Pool

MIB = 2**20
SIZES = {"small": (0.4, 3), "few": (2, 8), "tens": (3, 60), "hundreds": (20, 200), "large": (100, 900)}
FREED: dict[str, Callable[[int, random.Random], bool]] = {
    "every other": lambda i, _: i % 2 == 0,
    "half": lambda _, rng: rng.random() < 0.5,
    "tenth": lambda _, rng: rng.random() < 0.1,
}
MARGIN_COLD, MARGIN_WARM = 0.05, 0.2
SMALL = {"every other": 0.055, "half": 0.245, "tenth": 0.1}
"""Of blocks of 0.4 to 3 MiB: half of what lies in whole granules, counted."""


def fill(pool: Pool, device: Device, sizes: tuple[float, float], rng: random.Random, *, is_warm: bool) -> list[Buffer]:
    """Blocks until the device is full; before that, when warm, a while of allocating and freeing on half of it."""

    def size() -> int:
        return int(rng.uniform(*sizes) * MIB) // 512 * 512

    live: list[Buffer] = []
    held = 0
    for _ in range(3000 if is_warm else 0):
        if held < device.total_memory / 2 and (not live or rng.random() < 0.55):
            live.append(pool.allocate(size()))
            held += live[-1].nbytes
        else:
            gone = live.pop(rng.randrange(len(live)))
            held -= gone.nbytes
            gone.close()
    while True:
        try:
            live.append(pool.allocate(size()))
        except memlake.OutOfMemory:
            return live


@pytest.mark.parametrize("aliasing", ["none", "whole", "prefix"])
@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("freed", FREED)
@pytest.mark.parametrize("sizes", SIZES)
def test_most_of_the_free_bytes_can_be_had_in_one_piece(sizes: str, freed: str, is_warm: bool, aliasing: str):
    lowest, highest = SIZES[sizes]
    rng = random.Random(1)
    with memlake.emulate(memory="12GiB", backing="none") as (device,):
        pool = memlake.Pool(device, LakeOptions(aliasing=aliasing))
        live = sorted(fill(pool, device, SIZES[sizes], rng, is_warm=is_warm), key=lambda buffer: buffer.ptr)
        assert sum(buffer.nbytes for buffer in live) >= 0.975 * device.total_memory  # packing
        for i, buffer in enumerate(live):
            if FREED[freed](i, rng):
                buffer.close()
        kept = [buffer for buffer in live if buffer.is_open]
        free = device.total_memory - sum(buffer.nbytes for buffer in kept)
        margin = MARGIN_WARM if is_warm else MARGIN_COLD
        share = SMALL[freed] if sizes == "small" else 1 - 2 / ((lowest + highest) / 2) - margin
        pool.allocate(int(free * share)).close()
        pool.check()
        for buffer in kept:
            buffer.close()
        pool.close()
