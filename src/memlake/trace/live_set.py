"""The allocations that are live after a row of a trace, by call site and by category."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.trace.call_sites import BEFORE, CallSite, call_site_of
from memlake.trace.categories import UNKNOWN, category_of
from memlake.trace.columns import is_free
from memlake.trace.live_bytes import rounded
from memlake.trace.operations import Op
from memlake.trace.refused_rows import refused_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from memlake.trace.trace import Trace

__all__ = ["LiveSet", "SiteMemo", "SiteRow", "live_after", "site_of_tag"]

_LONGEST_TAG = 200


@dataclass(frozen=True)
class SiteRow:
    """What one call site has live.

    Attributes:
        site: the call site.
        nbytes: its live bytes, each request rounded up to 512.
        count: the number of its live allocations.
        categories: its bytes by category; a key is a category of `memlake.trace.categories`.
    """

    site: CallSite
    nbytes: int
    count: int
    categories: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a dict."""
        return {
            **self.site.to_json(),
            "bytes": self.nbytes,
            "count": self.count,
            "categories": dict(self.categories),
        }


@dataclass
class SiteMemo:
    """The call sites and the categories of stacks that were found before. It belongs to one trace.

    Attributes:
        sites: the call site of each stack, by its number, or of each tag, by its text.
        categories: the category of each pair of stacks: of an allocation and of its free.
    """

    sites: dict[int | str, CallSite] = field(default_factory=dict)
    categories: dict[tuple[int, int], str] = field(default_factory=dict)

    def site_of(self, trace: Trace, row: int, *, by_tag: bool = False) -> CallSite:
        """Returns the call site of an allocation: by its stack, or by its tag if the trace has no stacks.

        Args:
            trace: the trace.
            row: the row of the allocation.
            by_tag: whether to take the tag also if the trace has stacks.
        """
        if by_tag or trace.context is None:
            tag = trace.tags[trace.tag[row]] if trace.tags else ""
            if tag not in self.sites:
                self.sites[tag] = site_of_tag(tag)
            return self.sites[tag]
        stack = int(trace.context.stack[row])
        if stack not in self.sites:
            self.sites[stack] = call_site_of(trace.context.stacks[stack])
        return self.sites[stack]

    def category_of(self, trace: Trace, row: int, end: int) -> str:
        """Returns the category of an allocation.

        Args:
            trace: the trace.
            row: the row of the allocation.
            end: the row that frees it; the length of the trace if none does.
        """
        context = trace.context
        if context is None:
            return UNKNOWN
        stack = int(context.stack[row])
        free = int(context.stack[end]) if end < len(trace) else 0
        if (stack, free) not in self.categories:
            self.categories[stack, free] = category_of(context.stacks[stack], context.stacks[free])
        return self.categories[stack, free]


@dataclass(frozen=True, eq=False)
class LiveSet:
    """The allocations that are live after a row. A request that the program's allocator refused is never live.

    Attributes:
        row: the row.
        born: the row of each allocation.
        died: the row that frees it; the length of the trace if none does.
        sizes: its bytes, rounded up to 512.
    """

    row: int
    born: npt.NDArray[np.int64] = field(repr=False)
    died: npt.NDArray[np.int64] = field(repr=False)
    sizes: npt.NDArray[np.uint64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.born)

    @property
    def nbytes(self) -> int:
        """The sum of the sizes."""
        return sum(self.sizes.tolist())

    def youngest(self) -> LiveSet:
        """Returns the part that the row itself allocated: one allocation, or none."""
        is_youngest = self.born == self.row
        return LiveSet(self.row, self.born[is_youngest], self.died[is_youngest], self.sizes[is_youngest])

    def by_site(
        self, trace: Trace, *, num_before: int = 0, by_tag: bool = False, memo: SiteMemo | None = None
    ) -> tuple[SiteRow, ...]:
        """Groups the allocations by call site, the largest first.

        Args:
            trace: the trace.
            num_before: the number of rows that were allocated before the recording, for sites that are not known.
            by_tag: whether to take the tags of the trace for its call sites, also if it has stacks.
            memo: what earlier calls for this trace have found; it is extended.
        """
        memo = memo or SiteMemo()
        total: dict[CallSite, int] = defaultdict(int)
        count: dict[CallSite, int] = defaultdict(int)
        parts: dict[CallSite, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for start, end, size in zip(self.born.tolist(), self.died.tolist(), self.sizes.tolist(), strict=True):
            site = memo.site_of(trace, start, by_tag=by_tag)
            category = UNKNOWN if by_tag else memo.category_of(trace, start, end)
            if site.rule == "none" and start < num_before:
                site = CallSite(BEFORE, "none")
            total[site] += size
            count[site] += 1
            parts[site][category] += size
        return tuple(
            SiteRow(site, total[site], count[site], dict(parts[site]))
            for site in sorted(total, key=lambda site: (-total[site], site))
        )


def live_after(trace: Trace, row: int) -> LiveSet:
    """Returns what is live after a row of a trace."""
    born = np.flatnonzero(trace.op == Op.ALLOCATE.value)
    died = np.full(len(born), len(trace))
    frees = np.flatnonzero(is_free(trace.op))
    died[trace.id[frees]] = frees
    accepted = np.where(refused_rows(trace), np.uint64(0), trace.bytes)
    live = np.flatnonzero((born <= row) & (died > row) & (accepted[born] > 0))
    return LiveSet(row, born[live], died[live], rounded(accepted[born[live]]))


def site_of_tag(tag: str) -> CallSite:
    """Returns the call site that a tag stands for."""
    return CallSite(tag[:_LONGEST_TAG], "tag") if tag else call_site_of(())
