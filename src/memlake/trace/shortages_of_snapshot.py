"""Finds the requests of a snapshot for which PyTorch had no memory, and the state of its allocator at these moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlake.trace.live_bytes import rounded
from memlake.trace.operations import Op
from memlake.trace.shortages import RecordedShortage

if TYPE_CHECKING:
    import numpy.typing as npt

    from memlake.trace.recorded import Recorded

__all__ = ["shortages_of"]

_MOST = 100
"""A program that retries forever fails forever. The last shortages are kept."""


def shortages_of(
    recorded: Recorded, op: npt.NDArray[np.uint8], ids: npt.NDArray[np.uint64], nbytes: npt.NDArray[np.uint64]
) -> list[RecordedShortage]:
    """Returns the last 100 shortages of a record.

    Args:
        recorded: the record; the row of an ``"oom"`` event is the row of the request.
        op: the operation of each row.
        ids: the allocation of each row; the n-th allocation has the number n.
        nbytes: the requested size of each allocation.
    """
    failures = [event for event in recorded.events if event.kind == "oom"]
    if not failures:
        return []
    live = _live_before_rows(op, ids, nbytes)
    refused = [event.row for event in failures]
    requests = np.flatnonzero(op == Op.ALLOCATE.value)
    last_request = int(requests[-1])
    found = []
    for event, held in recorded.held_after_events():
        if event.kind == "oom":
            found.append(
                RecordedShortage(
                    row=event.row,
                    requested=event.nbytes,
                    stream=event.stream,
                    device_free=_bounded(event.device_free),
                    held=_bounded(held) or 0,
                    live=int(live[event.row]),
                    is_last=event.row == last_request and event.row == refused[-1],
                )
            )
    return found[-_MOST:]


def _live_before_rows(
    op: npt.NDArray[np.uint8], ids: npt.NDArray[np.uint64], nbytes: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Returns the live bytes before each row, each request rounded up to 512."""
    # A forged file may have sizes whose sum overflows; clipping keeps the figure a number.
    sizes = np.minimum(rounded(nbytes), np.uint64(2**40)).astype(np.int64)
    change = np.zeros(len(op), np.int64)
    allocates = op == Op.ALLOCATE.value
    change[allocates] = sizes[allocates]
    of_allocation = sizes[allocates]
    frees = op == Op.FREE.value
    change[frees] = -of_allocation[ids[frees].astype(np.int64)]
    before: npt.NDArray[np.int64] = np.cumsum(change) - change
    return before


def _bounded(number: int | None) -> int | None:
    return None if number is None else min(max(number, 0), 2**63 - 1)
