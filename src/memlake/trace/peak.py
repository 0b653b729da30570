"""The peak of a trace: the allocations that were live when most bytes were, by call site and by category."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.errors import ConfigError
from memlake.printable import Printable
from memlake.trace.call_sites import KNOWN_RULES
from memlake.trace.categories import RULES, UNKNOWN
from memlake.trace.columns import Columns
from memlake.trace.live_bytes import peak_of
from memlake.trace.live_set import SiteRow, live_after
from memlake.trace.refused_rows import refused_rows
from memlake.units import format_bytes
from memlake.wording import counted, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from memlake.trace.live_set import LiveSet
    from memlake.trace.trace import Trace

__all__ = ["Peak", "PeakRow", "categories_of", "live_at_peak", "peak_of_trace"]


PeakRow = SiteRow
"""A row of a peak: what one call site had live at it."""


@dataclass(frozen=True)
class Peak(Printable, table="peak"):
    """The allocations that were live at the peak. Iterating yields the rows, the largest first.

    `print` shows it as ``memlake show`` does.

    A request that the program's own allocator refused was never live, so it is not in the peak. `Trace.peak_live` has
    it, because a replay must serve it.

    Attributes:
        row: the first row at which the peak is reached, the last row for a moment; None if nothing is allocated.
        nbytes: the live bytes at the peak, each request rounded up to 512.
        count: the number of live allocations.
        scope: what the peak is the peak of: ``"job"``; ``"recorded part"`` if the beginning of the history is
            missing; ``"moment"`` if the file has no history, so that it is no peak but the moment of the snapshot.
        rows: one row per call site, the largest first.
        categories: the bytes by category, the largest first; without categories that have none.
    """

    row: int | None
    nbytes: int
    count: int
    scope: str
    rows: tuple[PeakRow, ...] = field(repr=False)
    categories: Mapping[str, int] = field(repr=False)

    def __iter__(self) -> Iterator[PeakRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def with_site(self) -> int:
        """The bytes whose call site is known: by a Python frame, a node of autograd or a tag."""
        return sum(row.nbytes for row in self.rows if row.site.rule in KNOWN_RULES)

    @property
    def sentence(self) -> str:
        """The peak in one line."""
        what = f"{format_bytes(self.nbytes)} in {self.count:,} {plural(self.count, 'allocation')}"
        if self.row is None:
            return "Nothing is allocated."
        if self.scope == "moment":
            return f"Live when the snapshot was taken: {what}. The peak is not known."
        part = " of the recorded part" if self.scope == "recorded part" else ""
        return f"Live at the peak{part} (row {self.row}): {what}."

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a dict."""
        return {
            "row": self.row,
            "bytes": self.nbytes,
            "count": self.count,
            "scope": self.scope,
            "with_site": self.with_site,
            "sites": [row.to_json() for row in self.rows],
            "categories": [
                {"category": name, "bytes": nbytes, "rule": RULES[name]} for name, nbytes in self.categories.items()
            ],
            "sentence": self.sentence,
        }

    def to_pandas(self) -> Any:
        """Returns the rows as a pandas DataFrame, one line per call site.

        Raises:
            ConfigError: if pandas is not installed.
        """
        try:
            import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]
        except ImportError:
            raise ConfigError("to_pandas() needs pandas; install it with: pip install pandas") from None
        columns = ["site", "rule", "file", "line", "function", "bytes", "count"]
        return pandas.DataFrame([[row.to_json()[name] for name in columns] for row in self.rows], columns=columns)

    def __repr__(self) -> str:
        sites = counted(len(self.rows), "call site")
        return f"<memlake.Peak of the {self.scope}: {format_bytes(self.nbytes)}, {sites}>"


def peak_of_trace(trace: Trace) -> Peak:
    """Returns the peak of a trace."""
    nbytes, row = _bytes_and_row(trace)
    scope = {"complete": "job", "state": "moment"}.get(trace.history.kind, "recorded part")
    if row is None:
        return Peak(None, 0, 0, scope, (), {})
    if scope == "moment":
        row = len(trace) - 1
    live = live_after(trace, row)
    if scope == "moment":
        nbytes = live.nbytes
    rows = live.by_site(trace, num_before=0 if scope == "moment" else trace.num_carried)
    return Peak(row, nbytes, len(live), scope, rows, categories_of(rows))


def live_at_peak(trace: Trace) -> LiveSet | None:
    """Returns what was live at the peak; None if nothing is allocated, or if the trace has no history."""
    row = _bytes_and_row(trace)[1]
    return None if row is None or trace.history.kind == "state" else live_after(trace, row)


def _bytes_and_row(trace: Trace) -> tuple[int, int | None]:
    accepted = np.where(refused_rows(trace), np.uint64(0), trace.bytes)
    return peak_of(Columns(trace.op, trace.id, accepted, trace.stream, trace.tag, trace.time))


def categories_of(rows: Iterable[SiteRow]) -> dict[str, int]:
    """Returns the bytes of rows by category, the largest first and unknown ones last."""
    categories: dict[str, int] = defaultdict(int)
    for one in rows:
        for category, size in one.categories.items():
            categories[category] += size
    return dict(sorted(categories.items(), key=lambda item: (item[0] == UNKNOWN, -item[1])))
