"""The live bytes of a trace, with which the memory that each policy holds is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlake.trace.columns import is_free
from memlake.trace.operations import Op
from memlake.trace.refused_rows import refused_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from memlake.trace.columns import Columns
    from memlake.trace.trace import Trace

__all__ = ["ROUNDING", "live_bytes_by_row", "peak_of", "rounded"]

ROUNDING = 512
"""Each request is rounded up to a multiple of this, the smallest block of PyTorch."""


def rounded(nbytes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Rounds each request up to a multiple of 512; 0 stays 0."""
    unit = np.uint64(ROUNDING)
    whole: npt.NDArray[np.uint64] = (nbytes + (unit - np.uint64(1))) // unit * unit
    return whole


def live_bytes_by_row(trace: Trace) -> npt.NDArray[np.int64]:
    """Returns the sum of live requests after each row, each rounded up to 512, without those that were refused."""
    allocates = trace.op == Op.ALLOCATE.value
    # A forged file may have sizes whose sum overflows; clipping keeps the figure a number.
    sizes = np.minimum(rounded(np.where(refused_rows(trace), np.uint64(0), trace.bytes)), np.uint64(2**40))
    change = np.zeros(len(trace), np.int64)
    change[allocates] = sizes[allocates].astype(np.int64)
    frees = is_free(trace.op)
    change[frees] = -change[allocates][trace.id[frees]]
    live: npt.NDArray[np.int64] = np.cumsum(change)
    return live


def peak_of(columns: Columns) -> tuple[int, int | None]:
    """Returns the largest sum of live requests and the first row that reaches it (None without an allocation)."""
    sizes = rounded(columns.bytes[columns.op == Op.ALLOCATE.value])
    if len(sizes) == 0:
        return 0, None
    frees = is_free(columns.op)
    # Sums of very large sizes overflow 64 bits, so each change is split into multiples of 2^32 and a remainder.
    high = np.zeros(len(columns), np.int64)
    low = np.zeros(len(columns), np.int64)
    for rows, sign, change in (
        (columns.op == Op.ALLOCATE.value, 1, sizes),
        (frees, -1, sizes[columns.id[frees]]),
    ):
        high[rows] = sign * (change >> np.uint64(32)).astype(np.int64)
        low[rows] = sign * (change & np.uint64(2**32 - 1)).astype(np.int64)
    # Each part is below 2^32, and no trace in memory has 2^31 rows, so neither sum overflows.
    high, low = np.cumsum(high), np.cumsum(low)
    high, low = high + (low >> 32), low & (2**32 - 1)
    highest = high == high.max()
    row = int(np.flatnonzero(highest)[np.argmax(low[highest])])
    return (int(high[row]) << 32) + int(low[row]), row
