"""Which allocations at the end of one snapshot are still live at the end of a later snapshot of the same process.

Addresses alone do not show that two snapshots are of one process: a program that runs twice often gets the same ones.
Times do. If the later history reaches back beyond the end of the earlier one, it has the same allocations at the same
addresses and at the same times, to the microsecond. PyTorch fits its clock to the system's for each snapshot anew, so
the times may differ by a straight line. Another process, also another rank of one job, differs from that by more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memlake.trace import Op
from memlake.trace.live_set import LiveSet, live_after
from memlake.units import format_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

    from memlake.trace import PeakRow, Trace

__all__ = ["StillLive", "still_live"]

_LEAST_COMMON = 16
"""How many allocations two histories must have in common."""
_LARGEST_SHIFT_US = 1000
_LARGEST_JITTER_US = 2
_MOST_CANDIDATES = 1000


@dataclass(frozen=True, kw_only=True)
class StillLive:
    """What was live at the end of A and still is at the end of B.

    Attributes:
        is_known: whether the files show that they are of one process, and which allocations these are.
        reason: how it is known, or why it is not, as a sentence.
        nbytes, count: what is still live; each request rounded up to 512.
        bytes_freed, count_freed: what was live at the end of A and has been freed since.
        rows: what is still live, by call site, the largest first.
    """

    is_known: bool
    reason: str
    nbytes: int = 0
    count: int = 0
    bytes_freed: int = 0
    count_freed: int = 0
    rows: tuple[PeakRow, ...] = field(default=(), repr=False)

    @property
    def sentence(self) -> str:
        """The result in words."""
        if not self.is_known:
            return f"What of A is still live in B is not known: {self.reason}."
        kept, freed = format_bytes(self.nbytes), format_bytes(self.bytes_freed)
        return (
            f"A and B are of one process ({self.reason}). Of what was live at the end of A, {kept} in {self.count:,} "
            f"allocations are still live at the end of B; {freed} in {self.count_freed:,} have been freed."
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a dict."""
        known = self.is_known
        return {
            "is_known": known,
            "bytes": self.nbytes if known else None,
            "count": self.count if known else None,
            "bytes_freed": self.bytes_freed if known else None,
            "count_freed": self.count_freed if known else None,
            "sites": [row.to_json() for row in self.rows],
            "sentence": self.sentence,
        }


class _Allocations(NamedTuple):
    """The allocations of the history of a trace."""

    row: npt.NDArray[np.int64]
    address: npt.NDArray[np.uint64]
    nbytes: npt.NDArray[np.uint64]
    time: npt.NDArray[np.int64]


def still_live(a: Trace, b: Trace) -> StillLive:
    """Finds what is live at the end of A and still live at the end of B, if both are of one process."""
    for name, trace in (("A", a), ("B", b)):
        if trace.recorded is None:
            return StillLive(is_known=False, reason=f"{name} has no addresses")
        if trace.history.kind == "state":
            return StillLive(is_known=False, reason=f"{name} has no history")
        if trace.time is None:
            return StillLive(is_known=False, reason=f"{name} has no times, so a second run looks the same")
    of_a, of_b = _allocations(a), _allocations(b)
    common = _common_end(of_a, of_b)
    if common is None:
        if _common_end(of_b, of_a) is not None:
            return StillLive(is_known=False, reason="B was taken before A; name the earlier snapshot first")
        reason = "they share no allocations, so they are two processes, or the history of B begins after the end of A"
        return StillLive(is_known=False, reason=reason)
    place, length = common
    return _compare(a, b, length, int(of_b.row[place]))


def _compare(a: Trace, b: Trace, num_common: int, row: int) -> StillLive:
    """Compares what is live at the end of A with what B has at the same addresses after the same allocation."""
    assert a.recorded is not None
    assert b.recorded is not None
    at_end = live_after(a, len(a) - 1)
    # Frees between the last allocation of A and its end are in B after that row, so A's own end decides.
    then = live_after(b, row)
    places = {int(b.recorded.addresses[born]): place for place, born in enumerate(then.born.tolist())}
    kept: list[int] = []
    freed: list[int] = []
    for place, born in enumerate(at_end.born.tolist()):
        other = places.get(int(a.recorded.addresses[born]))
        is_kept = other is not None and then.died[other] == len(b)
        (kept if is_kept else freed).append(place)
    still = LiveSet(at_end.row, at_end.born[kept], at_end.died[kept], at_end.sizes[kept])
    return StillLive(
        is_known=True,
        reason=f"the last {num_common:,} allocations of A are in B, at the same addresses and times",
        nbytes=still.nbytes,
        count=len(still),
        bytes_freed=sum(at_end.sizes[freed].tolist()),
        count_freed=len(freed),
        rows=still.by_site(a, num_before=a.num_carried),
    )


def _allocations(trace: Trace) -> _Allocations:
    assert trace.recorded is not None
    assert trace.time is not None
    rows = np.flatnonzero((trace.op == Op.ALLOCATE.value) & (trace.recorded.addresses != 0))
    rows = rows[rows >= trace.num_carried]
    return _Allocations(rows, trace.recorded.addresses[rows], trace.bytes[rows], trace.time[rows])


def _common_end(early: _Allocations, late: _Allocations) -> tuple[int, int] | None:
    """Returns the place in `late` of the last allocation of `early`, and how many both have in common up to it."""
    if len(early.row) < _LEAST_COMMON:
        return None
    near = (
        (late.address == early.address[-1])
        & (late.nbytes == early.nbytes[-1])
        & (np.abs(late.time - early.time[-1]) <= _LARGEST_SHIFT_US)
    )
    for place in np.flatnonzero(near)[:_MOST_CANDIDATES].tolist():
        length = min(len(early.row), place + 1)
        if length >= _LEAST_COMMON and _is_same(early, late, place, length):
            return place, length
    return None


def _is_same(early: _Allocations, late: _Allocations, place: int, length: int) -> bool:
    mine, theirs = slice(len(early.row) - length, None), slice(place + 1 - length, place + 1)
    if not np.array_equal(early.address[mine], late.address[theirs]):
        return False
    if not np.array_equal(early.nbytes[mine], late.nbytes[theirs]):
        return False
    time = (early.time[mine] - early.time[mine][0]).astype(np.float64)
    change = (late.time[theirs] - early.time[mine]).astype(np.float64)
    if np.abs(change).max() > _LARGEST_SHIFT_US:
        return False
    middle = time - time.mean()
    spread = float(middle @ middle)
    slope = float(middle @ change) / spread if spread else 0.0
    return bool(np.abs(change - change.mean() - slope * middle).max() <= _LARGEST_JITTER_US)
