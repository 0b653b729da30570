"""The tables of a fit for several ranks: the smallest device of each rank, and the one that serves all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.tables.job import RankColumns, add_head, add_notes, add_worst, live_peak, shortened
from memlake.tables.page import Page
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.analysis import FitResult
    from memlake.jobs import JobFit, JobSize

__all__ = ["page_of"]


def page_of(found: JobFit) -> Page:
    """Returns the smallest device of each rank under each policy, then those that serve every rank."""
    page = Page()
    add_head(page, found)
    names = list(dict.fromkeys(_column(one, found) for rank in found.ranks for one in rank.result))
    columns = RankColumns(found)
    rows = []
    for rank in found.ranks:
        cells = {_column(one, found): _cell(one) for one in rank.result}
        rows.append((*columns.cells(rank), live_peak(rank), *(cells.get(name, "-") for name in names)))
    page.table((*columns.headers, "live peak", *names), rows, left=len(columns.headers))
    page.paragraph("A size is the smallest device of the rank under the policy.")
    page.line()
    if found.policies:
        headers = ("policy", "serves all ranks", "min", "median", "max", "decided by")
        page.table(headers, [_line(size) for size in found.policies])
        page.line()
    add_notes(page, found)
    worst = found.worst
    add_worst(page, f"The worst is {worst.file.title}: {worst.result.sentence}", worst.result.notes)
    page.line()
    page.paragraph(found.sentence)
    return page


def _column(one: FitResult, found: JobFit) -> str:
    return one.label if found.is_one_job else one.result.policy


def _cell(one: FitResult) -> str:
    return one.shown


def _line(size: JobSize) -> tuple[str, ...]:
    all_of_them = size.shown
    spread = size.spread
    if spread is None:
        return (size.options.label, all_of_them, "-", "-", "-", "-")
    sizes = tuple(map(format_bytes, (spread.least, spread.median, spread.most)))
    decided_by = shortened(size.beyond[0] if size.beyond else spread.most_rank)
    return (size.options.label, all_of_them, *sizes, decided_by)
