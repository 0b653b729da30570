"""Small files for sweeps: traces whose live peak is known, and a folder of them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import memlake
from memlake.trace import Op

if TYPE_CHECKING:
    from pathlib import Path

MIB = 2**20
MOST_LIVE = 200 * MIB
"""No more than this is live at once, except for the last request."""


def random_trace(seed: int, num_rows: int = 400) -> memlake.Trace:
    """A trace of requests of 3 to 33 MiB on two streams, of which half are freed in another order."""
    choose = random.Random(seed)
    rows: list[tuple[Op, int, int, int]] = []
    live: list[tuple[int, int]] = []
    number = 0
    while len(rows) < num_rows:
        if live and (sum(nbytes for _, nbytes in live) > MOST_LIVE or choose.random() < 0.45):
            freed, _ = live.pop(choose.randrange(len(live)))
            rows.append((Op.FREE, freed, 0, 0))
        else:
            nbytes = choose.choice([3, 7, 12, 20, 33]) * MIB
            rows.append((Op.ALLOCATE, number, nbytes, choose.randrange(2)))
            live.append((number, nbytes))
            number += 1
    return memlake.Trace(*zip(*rows, strict=True))


def write_ranks(folder: Path, num_ranks: int, num_rows: int = 400) -> Path:
    """Writes the traces of so many ranks, each another one, and returns the folder."""
    folder.mkdir(exist_ok=True)
    for rank in range(num_ranks):
        random_trace(rank, num_rows).save(folder / f"rank{rank}.npz")
    return folder
