"""What the held memory of a replay was, from moment to moment: asked for, rounding, waiting, scattered, cached."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlake.replaying.moments import STATES

if TYPE_CHECKING:
    import numpy.typing as npt

    from memlake.replaying.moments import Moments

__all__ = ["PARTS", "split_over_time"]

PARTS = {
    "requested": "what the program asked for",
    "rounding": "in blocks in use, not asked for",
    "pending": "freed, but a stream may still use it",
    "external": "free pieces between blocks in use",
    "cached": "free, and can be given back to the driver",
}
"""The parts of the held memory, with their meanings."""
_FREE, _LIVE, _PENDING, _CLAIMED = (STATES.index(state) for state in ("free", "live", "pending", "claimed"))


def split_over_time(moments: Moments) -> dict[str, npt.NDArray[np.float64]]:
    """Returns the bytes of each part at each moment, the largest free block, and the numbers of blocks and segments.

    Free memory is cached if its whole segment is free, or as far as it covers whole pages of an expandable segment.
    """
    moment, state = moments.moment, moments.column("state")
    nbytes = moments.column("nbytes").astype(np.float64)
    requested = moments.column("requested").astype(np.float64)
    is_live, is_pending = state == _LIVE, state == _PENDING
    is_free = (state == _FREE) | (state == _CLAIMED)
    cached = np.where(is_free, _giveable(moments, is_live | is_pending), 0.0)
    count = len(moments)

    def total(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.bincount(moment, weights, count).astype(np.float64)

    largest = np.zeros(count)
    np.maximum.at(largest, moment[is_free], nbytes[is_free])
    return {
        "requested": total(np.where(is_live, requested, 0.0)),
        "rounding": total(np.where(is_live, nbytes - requested, 0.0)),
        "pending": total(np.where(is_pending, nbytes, 0.0)),
        "external": total(np.where(is_free, nbytes - cached, 0.0)),
        "cached": total(cached),
        "largest_free": largest,
        "blocks": total(np.ones(len(nbytes))),
        "segments": _count_segments(moments),
    }


def _giveable(moments: Moments, is_used: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Returns for each block how much of it could be given back to the driver if it is free."""
    _, segment = np.unique(moments.column("segment"), return_inverse=True)
    key = moments.moment * (int(segment.max(initial=0)) + 1) + segment.reshape(-1)
    _, group = np.unique(key, return_inverse=True)
    group = group.reshape(-1)
    has_used = np.bincount(group, is_used.astype(np.float64)) > 0
    nbytes, page = moments.column("nbytes"), moments.column("page")
    whole = np.maximum(page, np.uint64(1))
    offset = moments.column("address") - moments.column("segment")
    begin = (offset + whole - np.uint64(1)) // whole
    end = (offset + nbytes) // whole
    pages = np.where((page > 0) & (end > begin), (end - np.minimum(begin, end)) * page, np.uint64(0))
    return np.where(has_used[group], pages, nbytes).astype(np.float64)


def _count_segments(moments: Moments) -> npt.NDArray[np.float64]:
    pairs = np.unique(np.stack([moments.moment.astype(np.uint64), moments.column("segment")], axis=1), axis=0)
    return np.bincount(pairs[:, 0].astype(np.int64), minlength=len(moments)).astype(np.float64)
