"""The rows of a trace that the program's own allocator refused. They are requests, but they were never live."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlake.trace.operations import Op

if TYPE_CHECKING:
    import numpy.typing as npt

    from memlake.trace.trace import Trace

__all__ = ["refused_rows"]


def refused_rows(trace: Trace) -> npt.NDArray[np.bool_]:
    """Returns which rows are requests for which the program's own allocator had no memory."""
    refused = np.zeros(len(trace), np.bool_)
    recorded = trace.recorded
    if recorded is not None:
        rows = [event.row for event in recorded.events if event.kind == "oom"]
    else:
        rows = [shortage.row for shortage in trace.shortages]
    refused[[row for row in rows if row < len(trace)]] = True
    refused &= trace.op == Op.ALLOCATE.value
    if recorded is not None:
        refused &= recorded.addresses == 0
    return refused
