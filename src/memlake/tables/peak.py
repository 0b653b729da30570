"""The tables of a peak: what was live, by call site and by category."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.tables.page import Page
from memlake.tables.shares import share
from memlake.trace.categories import RULES, UNKNOWN
from memlake.units import format_bytes
from memlake.wording import shorten_end

if TYPE_CHECKING:
    from memlake.trace import Peak

__all__ = ["page_of"]

_LONGEST_SITE = 60


def page_of(peak: Peak, *, num_sites: int = 10) -> Page:
    """Returns the peak as a page.

    Args:
        peak: the peak.
        num_sites: how many call sites to show.
    """
    page = Page()
    page.line(peak.sentence)
    if not peak.rows:
        return page
    rows = [
        (
            shorten_end(row.site.text, _LONGEST_SITE),
            row.site.rule,
            format_bytes(row.nbytes),
            share(row.nbytes, peak.nbytes),
            f"{row.count:,}",
        )
        for row in peak.rows[:num_sites]
    ]
    if rest := peak.rows[num_sites:]:
        nbytes = sum(row.nbytes for row in rest)
        name = f"({len(rest):,} more call sites: --sites)"
        rows.append((name, "", format_bytes(nbytes), share(nbytes, peak.nbytes), f"{sum(row.count for row in rest):,}"))
    page.table(("call site", "found by", "bytes", "share", "count"), rows, left=2)
    page.line()
    if set(peak.categories) == {UNKNOWN}:
        page.line("By category: unknown, no rule decides it.")
        return page
    categories = [
        (name, RULES[name], format_bytes(nbytes), share(nbytes, peak.nbytes))
        for name, nbytes in peak.categories.items()
    ]
    page.table(("category", "rule", "bytes", "share"), categories, left=2)
    return page
