"""The rows after which a report shows the address map: spread over the trace, and dense where something happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlake.trace import Op
from memlake.trace.columns import is_free

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from memlake.analysis.step_peaks import StepPeak
    from memlake.trace import Trace

__all__ = ["chosen_moments", "most_live"]

_MOST = 240
_FEWEST = 24
_BLOCKS_OF_ALL = 4_000_000
"""About as many blocks are looked at in all moments of all policies: 80 bytes each while the report is made."""
_MOST_STEPS = 60
_BEFORE = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233)
"""A moment with an event is also shown this many rows before it: dense close to it, and sparse further away."""


def chosen_moments(
    trace: Trace,
    steps: Sequence[StepPeak],
    failures: Iterable[int],
    num_policies: int,
    window: tuple[int, int] | None = None,
) -> npt.NDArray[np.uint64]:
    """Returns the rows of the moments, ascending.

    Args:
        trace: the trace.
        steps: its steps; the end of each, up to 60 of them, is a moment.
        failures: rows at which a policy ran out of memory.
        num_policies: the number of replays that are shown.
        window: the first and the last row between which the moments are spread; None: all rows.
    """
    first, last = trace.num_carried, len(trace) - 1
    if last < 0:
        return np.zeros(0, np.uint64)
    # A replay may hold about as many free blocks as live ones.
    blocks = 2 * max(most_live(trace), 1) * max(num_policies, 1)
    number = int(np.clip(_BLOCKS_OF_ALL // blocks, _FEWEST, _MOST))
    begin, end = (min(first, last), last) if window is None else window
    rows = set(np.linspace(begin, end, number).astype(np.int64).tolist())
    events = {*failures, *([] if trace.peak_row is None else [trace.peak_row])}
    rows |= {row - before for row in events for before in _BEFORE}
    stride = -(-len(steps) // _MOST_STEPS) or 1
    rows |= {step.stop - 1 for step in steps[::stride]}
    return np.array(sorted(row for row in rows if 0 <= row <= last), np.uint64)


def most_live(trace: Trace) -> int:
    """Returns the largest number of allocations that were live at once."""
    change = (trace.op == Op.ALLOCATE.value).astype(np.int64) - is_free(trace.op)
    return int(np.cumsum(change).max(initial=0))
