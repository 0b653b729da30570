"""Cuts a part out of a trace. The new trace first allocates everything that is live at the start of the part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.trace.columns import is_free
from memlake.trace.operations import Op

if TYPE_CHECKING:
    import numpy.typing as npt

    from memlake.trace.columns import Columns

__all__ = ["cut"]


def cut(columns: Columns, start: int, stop: int) -> tuple[dict[str, npt.NDArray[Any] | None], npt.NDArray[np.int64]]:
    """Returns the columns of rows `start` to `stop` as arguments of `Trace`, and the row that each of them was.

    They begin with the allocations that are live at `start`, in their order, and then the streams that these were
    recorded on. `EVENT_DONE` rows of allocations that were freed before `start` are left out.
    """
    stop = max(start, stop)
    is_allocation = columns.op == Op.ALLOCATE.value
    born = np.flatnonzero(is_allocation)
    died = np.full(len(born), len(columns))
    frees = np.flatnonzero(is_free(columns.op))
    died[columns.id[frees]] = frees
    carried = born[(born < start) & (died >= start)]
    records = np.flatnonzero(columns.op[:start] == Op.RECORD_STREAM.value)
    records = records[died[columns.id[records]] >= start]
    inside = np.arange(start, stop)
    done = columns.op[inside] == Op.EVENT_DONE.value
    late = np.zeros(len(inside), np.bool_)
    late[done] = died[columns.id[inside[done]]] < start
    rows = np.concatenate([carried, records, inside[~late]])
    part: dict[str, npt.NDArray[Any] | None] = {
        name: getattr(columns, name)[rows] for name in ("op", "id", "bytes", "stream", "tag")
    }
    part["time"] = None
    if columns.time is not None:
        time = columns.time[rows]
        if start < len(columns):
            time[: len(carried) + len(records)] = columns.time[start]
        part["time"] = time
    return part, rows
