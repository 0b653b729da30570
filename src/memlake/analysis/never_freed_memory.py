"""Never freed memory: what a job allocated while it was recorded and had not freed at the end of that, by call site."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memlake.analysis.step_peaks import step_peaks_of
from memlake.printable import Printable
from memlake.replaying.running import to_trace
from memlake.trace.live_set import SiteMemo, live_after
from memlake.units import format_bytes
from memlake.wording import plural

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from memlake.analysis.step_peaks import StepPeak
    from memlake.trace import CallSite, Trace
    from memlake.trace.live_set import LiveSet

__all__ = ["NeverFreed", "NeverFreedRow", "never_freed"]


@dataclass(frozen=True)
class NeverFreedRow:
    """What one call site allocated in the history and had not freed at its end.

    Attributes:
        site: the call site.
        nbytes: the bytes, each request rounded up to 512.
        count: the number of allocations.
        oldest_rows, newest_rows: the age of the oldest and of the newest of them at the end, in rows of the trace.
        oldest_us, newest_us: the same in microseconds; None if the file has no times.
        num_steps: in how many steps of the job they were made; None if the steps are not known.
    """

    site: CallSite
    nbytes: int
    count: int
    oldest_rows: int
    newest_rows: int
    oldest_us: int | None
    newest_us: int | None
    num_steps: int | None

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a dict."""
        return {
            **self.site.to_json(),
            "bytes": self.nbytes,
            "count": self.count,
            "oldest_rows": self.oldest_rows,
            "newest_rows": self.newest_rows,
            "oldest_us": self.oldest_us,
            "newest_us": self.newest_us,
            "num_steps": self.num_steps,
        }


@dataclass(frozen=True, kw_only=True)
class NeverFreed(Printable, table="never_freed"):
    """The result of `never_freed`. Iterating yields the rows.

    Not all of it is leaked: weights and the state of an optimizer are live at the end, too. A leak has allocations of
    many ages, or of many steps.

    Attributes:
        is_known: False if the file has no history.
        nbytes: the bytes that were allocated in the history and not freed at its end, each request rounded up to 512.
        count: the number of these allocations.
        bytes_before: what is live at the end and was allocated before the history began. It is not in the rows.
        num_rows: the rows of the history.
        num_steps: the number of steps of the job; None if they are not known.
        rows: one row per call site, the largest first.
    """

    is_known: bool
    nbytes: int
    count: int
    bytes_before: int
    num_rows: int
    num_steps: int | None
    rows: tuple[NeverFreedRow, ...] = field(default=(), repr=False)

    def __iter__(self) -> Iterator[NeverFreedRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        what = f"{format_bytes(self.nbytes)} in {self.count} allocations" if self.is_known else "unknown"
        return f"<memlake.NeverFreed: {what}>"

    @property
    def sentence(self) -> str:
        """The result in words."""
        if not self.is_known:
            return "The file has no history, so it does not tell what was allocated and not freed."
        before = (
            f" {format_bytes(self.bytes_before)} more are live from before the recording." if self.bytes_before else ""
        )
        if not self.count:
            return f"All that was allocated in the recorded part was freed.{before}"
        allocations = plural(self.count, "allocation")
        return (
            f"{format_bytes(self.nbytes)} in {self.count:,} {allocations} of the recorded part were not freed at "
            f"its end.{before}"
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a dict."""
        return {
            "is_known": self.is_known,
            "bytes": self.nbytes if self.is_known else None,
            "count": self.count if self.is_known else None,
            "bytes_before": self.bytes_before if self.is_known else None,
            "rows": self.num_rows,
            "steps": self.num_steps,
            "sites": [row.to_json() for row in self.rows],
            "sentence": self.sentence,
        }


def never_freed(trace: Trace | str | os.PathLike[str]) -> NeverFreed:
    """Lists what a job allocated in its recorded part and had not freed at the end of it.

    Args:
        trace: the trace, or the path of its file.

    Raises:
        TraceError: if the file is not a trace. If there is no such file, it is also a FileNotFoundError.
    """
    trace = to_trace(trace)
    steps, _ = step_peaks_of(trace)
    num_rows = len(trace) - trace.num_carried
    if trace.history.kind == "state":
        return NeverFreed(is_known=False, nbytes=0, count=0, bytes_before=0, num_rows=num_rows, num_steps=None)
    live = live_after(trace, len(trace) - 1)
    is_own = live.born >= trace.num_carried
    rows = _rows(trace, live, is_own, steps)
    return NeverFreed(
        is_known=True,
        nbytes=sum(row.nbytes for row in rows),
        count=sum(row.count for row in rows),
        bytes_before=sum(live.sizes[~is_own].tolist()),
        num_rows=num_rows,
        num_steps=len(steps) or None,
        rows=rows,
    )


def _rows(
    trace: Trace, live: LiveSet, is_own: npt.NDArray[np.bool_], steps: Sequence[StepPeak]
) -> tuple[NeverFreedRow, ...]:
    groups: dict[CallSite, list[int]] = defaultdict(list)
    sizes: dict[CallSite, int] = defaultdict(int)
    memo = SiteMemo()
    for row, size in zip(live.born[is_own].tolist(), live.sizes[is_own].tolist(), strict=True):
        site = memo.site_of(trace, row)
        groups[site].append(row)
        sizes[site] += size
    end = len(trace) - 1
    last = None if trace.time is None else int(trace.time[end])
    found = []
    for site, born in groups.items():
        times = None if trace.time is None or last is None else [last - int(trace.time[row]) for row in born]
        found.append(
            NeverFreedRow(
                site,
                sizes[site],
                len(born),
                end - born[0],
                end - born[-1],
                None if times is None else max(times),
                None if times is None else max(min(times), 0),
                len(_numbers(steps, born)) if steps else None,
            )
        )
    return tuple(sorted(found, key=lambda row: (-row.nbytes, row.site)))


def _numbers(steps: Sequence[StepPeak], rows: Iterable[int]) -> set[int]:
    """Returns the places of the steps that have any of the rows. Rows between the steps belong to none."""
    starts = [step.start for step in steps]
    places = ((bisect_right(starts, row) - 1, row) for row in rows)
    return {place for place, row in places if place >= 0 and row < steps[place].stop}
