"""The tables of a difference: the figures of both sides, what grew by call site and by category, and what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.analysis.growth import ONLY_A, ONLY_B, signed
from memlake.analysis.site_matching import UNSURE
from memlake.tables.names import shorten_to_fit
from memlake.tables.page import Page
from memlake.units import format_bytes
from memlake.wording import shorten_middle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.analysis import Diff
    from memlake.analysis.diff_side import DiffSide
    from memlake.analysis.growth import Growth, GrowthRow

__all__ = ["page_of"]

_LONGEST_VALUE = 30
_NOTHING = "-"


def page_of(found: Diff, *, num_sites: int = 10) -> Page:
    """Returns the difference as a page.

    Args:
        found: the difference.
        num_sites: how many call sites that grew, and how many that shrank, to show.
    """
    page = Page()
    for letter, side in (("A", found.a), ("B", found.b)):
        if side.name:
            page.line(f"{letter}  {shorten_middle(side.name, 76)}")
        page.line(f"{' ' if side.name else letter}  {_described(side)}")
    if found.steps_known_by:
        page.paragraph(f"Steps: {found.steps_known_by}.")
    page.line()
    if found.is_same:
        page.paragraph(found.sentence)
        return page
    _add_totals(page, found)
    _add_changes(page, found)
    if found.peak is not None:
        _add_growth(page, found.peak, num_sites, _PEAKS[found.scope])
    _add_growth(page, found.end, num_sites, "End against end")
    _add_lifetimes(page, found)
    for note in found.notes:
        page.paragraph(note)
    if found.notes:
        page.line()
    page.paragraph(found.sentence)
    return page


_PEAKS = {
    "job": "Peak against peak",
    "recorded part": "Peak against peak, of the recorded parts",
    "step": "Peak against peak, of the steps",
}


def _described(side: DiffSide) -> str:
    policy = side.settings.policy
    parts = [side.source or "trace"]
    if side.device is not None:
        parts.append(f"device {side.device}")
    if policy is not None:
        parts.append(f"torch {side.settings.torch}")
    parts.append(f"history {side.history.kind}")
    return ", ".join(parts)


def _add_totals(page: Page, found: Diff) -> None:
    a, b = found.a, found.b
    figures = [
        ("live peak", a.peak_live, b.peak_live),
        ("held peak", a.held_peak, b.held_peak),
        ("live at end", a.end_live, b.end_live),
        ("held at end", a.end_held, b.end_held),
    ]
    rows = [
        (
            name,
            *("unknown" if size is None else format_bytes(size) for size in (one, other)),
            "unknown" if one is None or other is None else signed(other - one),
            f"{100 * (other - one) / one:+.1f} %" if one and other is not None else _NOTHING,
        )
        for name, one, other in figures
    ]
    page.table(("", "A", "B", "growth", "share"), rows)
    page.line()


def _add_changes(page: Page, found: Diff) -> None:
    if not found.changes:
        return
    rows = [
        (shorten_middle(change.name, _LONGEST_VALUE - 5), shorten_middle(change.a, 24), shorten_middle(change.b, 24))
        for change in found.changes
    ]
    page.table(("what differs", "A", "B"), rows, left=3)
    page.line()


def _add_growth(page: Page, growth: Growth, num_sites: int, title: str) -> None:
    page.line(f"{title}, by {growth.by}:")
    if not growth.rows:
        page.line("nothing is live.")
        page.line()
        return
    if not growth.grown and not growth.shrunk:
        page.line(f"nothing grew and nothing shrank: {format_bytes(growth.bytes_b)} in both.")
        page.line()
        return
    lines = [*_lines(growth.grown, num_sites, "more that grew"), *_lines(growth.shrunk, num_sites, "more that shrank")]
    if same := growth.unchanged:
        lines.append(_sum(f"({len(same):,} unchanged)", same))
    lines.append(_sum("all", growth.rows))
    headers = (growth.by, "growth", "A", "B", "# A", "# B")
    page.table(headers, shorten_to_fit(headers, lines))
    if growth.reached:
        page.paragraph(growth.reached)
    page.paragraph(_marks([*growth.grown[:num_sites], *growth.shrunk[:num_sites]]))
    page.line()
    if growth.has_categories:
        rows = [
            (one.category, signed(one.growth), format_bytes(one.bytes_a), format_bytes(one.bytes_b))
            for one in growth.categories
        ]
        page.table(("category", "growth", "A", "B"), rows)
        page.line()


def _lines(rows: Sequence[GrowthRow], num_sites: int, more: str) -> list[tuple[str, ...]]:
    lines = [_line(row) for row in rows[:num_sites]]
    if rest := rows[num_sites:]:
        lines.append(_sum(f"({len(rest):,} {more}: --sites)", rest))
    return lines


def _line(row: GrowthRow) -> tuple[str, ...]:
    return (
        _name(row),
        signed(row.growth),
        _NOTHING if row.match == ONLY_B else format_bytes(row.bytes_a),
        _NOTHING if row.match == ONLY_A else format_bytes(row.bytes_b),
        _NOTHING if row.match == ONLY_B else f"{row.count_a:,}",
        _NOTHING if row.match == ONLY_A else f"{row.count_b:,}",
    )


def _name(row: GrowthRow) -> str:
    """The call site of B, with its line in A if that is another one."""
    if not _has_moved(row):
        return row.name
    assert row.site_a is not None
    assert row.site_b is not None
    mark = "?" if row.match == UNSURE else ">"
    return row.name.replace(f":{row.site_b.line} ", f":{row.site_a.line}{mark}{row.site_b.line} ", 1)


def _has_moved(row: GrowthRow) -> bool:
    return row.site_a is not None and row.site_b is not None and row.site_a.line != row.site_b.line


def _marks(rows: Sequence[GrowthRow]) -> str:
    """Explains the marks in the names of rows."""
    texts = []
    if any(_has_moved(row) and row.match != UNSURE for row in rows):
        texts.append("1>2: the line is 1 in A and 2 in B")
    if any(_has_moved(row) and row.match == UNSURE for row in rows):
        texts.append("1?2: probably so")
    if any(row.match in (ONLY_A, ONLY_B) for row in rows):
        texts.append("-: no such call site in the file")
    return "; ".join([*texts, "#: the number of live allocations"]) + "."


def _sum(name: str, rows: Sequence[GrowthRow]) -> tuple[str, ...]:
    return (
        name,
        signed(sum(row.growth for row in rows)),
        format_bytes(sum(row.bytes_a for row in rows)),
        format_bytes(sum(row.bytes_b for row in rows)),
        f"{sum(row.count_a for row in rows):,}",
        f"{sum(row.count_b for row in rows):,}",
    )


def _add_lifetimes(page: Page, found: Diff) -> None:
    still = found.still_live
    if still is not None and still.is_known:
        page.paragraph(still.sentence)
        rows = [(row.site.text, format_bytes(row.nbytes), f"{row.count:,}") for row in still.rows[:5]]
        if rows:
            headers = ("still live", "bytes", "count")
            page.table(headers, shorten_to_fit(headers, rows))
        page.line()
    elif still is not None:
        page.paragraph(still.sentence)
    if found.never_freed is not None:
        text = f"A: {found.never_freed.sentence}"
        if found.never_freed.count:
            text += " memlake diff A --never-freed lists them."
        page.paragraph(text)
        page.line()
