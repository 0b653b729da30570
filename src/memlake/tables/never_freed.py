"""The table of what was never freed: by call site, with ages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.tables.names import shorten_to_fit
from memlake.tables.page import Page
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.analysis import NeverFreed
    from memlake.analysis.never_freed_memory import NeverFreedRow

__all__ = ["page_of"]


def page_of(found: NeverFreed, *, num_sites: int = 10) -> Page:
    """Returns a page with one line per call site.

    Args:
        found: what was never freed.
        num_sites: how many call sites to show.
    """
    page = Page()
    page.paragraph(found.sentence)
    if not found.rows:
        return page
    page.line()
    has_times = all(row.oldest_us is not None for row in found.rows)
    has_steps = found.num_steps is not None
    ages = ("oldest", "newest") if has_times else ("oldest, rows", "newest, rows")
    headers = ("call site", "bytes", "count", *ages, *(["steps"] if has_steps else []))
    rows = [_line(row, has_times, has_steps) for row in found.rows[:num_sites]]
    if rest := found.rows[num_sites:]:
        rows.append(
            (
                f"({len(rest):,} more call sites: --sites)",
                format_bytes(sum(row.nbytes for row in rest)),
                f"{sum(row.count for row in rest):,}",
                *[""] * (len(headers) - 3),
            )
        )
    page.table(headers, shorten_to_fit(headers, rows))
    page.line()
    page.paragraph(
        "Not all of this is leaked: weights and the state of an optimizer are live at the end, too. A leak has "
        "allocations of many ages. oldest and newest are ages at the end of the recording"
        + (f"; steps is the number of steps, of {found.num_steps}, in which they were made." if has_steps else ".")
    )
    return page


def _line(row: NeverFreedRow, has_times: bool, has_steps: bool) -> tuple[str, ...]:
    if has_times:
        ages = (_duration(row.oldest_us or 0), _duration(row.newest_us or 0))
    else:
        ages = (f"{row.oldest_rows:,}", f"{row.newest_rows:,}")
    steps = (f"{row.num_steps:,}",) if has_steps else ()
    return (row.site.text, format_bytes(row.nbytes), f"{row.count:,}", *ages, *steps)


def _duration(us: int) -> str:
    if us < 1_000_000:
        return f"{us / 1000:.1f} ms"
    return f"{us / 1e6:.1f} s" if us < 600_000_000 else f"{us / 6e7:.0f} min"
