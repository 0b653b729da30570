"""The live bytes after each row of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlake.trace import Op
from memlake.trace.columns import is_free
from memlake.trace.live_bytes import rounded
from memlake.trace.refused import refused_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from memlake.trace import Trace

__all__ = ["live_after_rows"]


def live_after_rows(trace: Trace) -> npt.NDArray[np.int64]:
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
