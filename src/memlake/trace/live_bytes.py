"""How many bytes of a trace are live: the measure that every policy is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlake.trace.columns import is_free
from memlake.trace.operations import Op

if TYPE_CHECKING:
    import numpy.typing as npt

    from memlake.trace.columns import Columns

__all__ = ["ROUNDING", "peak_of", "rounded"]

ROUNDING = 512
"""Every request counts as a multiple of this: the smallest block of PyTorch, and the alignment that CUDA promises."""


def rounded(nbytes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Each request rounded up to a multiple of 512; a request for nothing gets nothing."""
    unit = np.uint64(ROUNDING)
    whole: npt.NDArray[np.uint64] = (nbytes + (unit - np.uint64(1))) // unit * unit
    return whole


def peak_of(columns: Columns) -> tuple[int, int | None]:
    """The largest sum of live requests, and the first row at which it is reached (None without any allocation)."""
    sizes = rounded(columns.bytes[columns.op == Op.ALLOCATE])
    if len(sizes) == 0:
        return 0, None
    frees = is_free(columns.op)
    # Sums of absurd sizes leave 64 bits, so the change of each row is kept as two numbers: units of 2^32, and the rest.
    high = np.zeros(len(columns), np.int64)
    low = np.zeros(len(columns), np.int64)
    for rows, sign, change in (
        (columns.op == Op.ALLOCATE, 1, sizes),
        (frees, -1, sizes[columns.id[frees]]),
    ):
        high[rows] = sign * (change >> np.uint64(32)).astype(np.int64)
        low[rows] = sign * (change & np.uint64(2**32 - 1)).astype(np.int64)
    # Less than 2^32 per row, and memory ends long before 2^31 rows: neither sum can leave 64 bits.
    high, low = np.cumsum(high), np.cumsum(low)
    high, low = high + (low >> 32), low & (2**32 - 1)
    highest = high == high.max()
    row = int(np.flatnonzero(highest)[np.argmax(low[highest])])
    return (int(high[row]) << 32) + int(low[row]), row
