"""The table of a fit: the smallest device of each policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.tables.page import Page
from memlake.tables.trust import add_trust
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.analysis import Fit, FitResult

__all__ = ["page_of"]


def page_of(found: Fit) -> Page:
    """Returns a table with one line per policy, then a summary."""
    page = Page()
    page.line(f"live peak {format_bytes(found.peak_live)}, {found.num_rows} rows")
    page.line()
    headers = ("policy", "smallest device", "over live peak", "bytes", "retries", "driver ms")
    page.table(headers, [_line(result, found.largest_capacity) for result in found])
    page.line()
    add_trust(page, found.reproduction, found.notes)
    page.paragraph(found.sentence)
    return page


def _line(found: FitResult, largest: int) -> tuple[str, ...]:
    result = found.result
    if found.min_capacity is None and result.ran:
        return (found.label, "unknown", "-", "-", "-", "-")
    if found.min_capacity is None:
        return (found.label, f"more than {format_bytes(largest)}", "-", "-", "-", "-")
    over = found.over_live
    modelled = result.modelled_driver_ms
    return (
        found.label,
        found.shown,
        "-" if over is None else f"{over:.4f}",
        str(found.min_capacity),
        str(result.num_alloc_retries),
        "-" if modelled is None else f"{modelled:.1f}",
    )
