"""The tables of an overview of several ranks: one line per rank, the spread, and the rank that is worst off."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from memlake.tables import peak
from memlake.tables.job import RankColumns, add_head, add_notes, add_spread, size
from memlake.tables.overview import add_steps
from memlake.tables.page import Page
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.analysis import Overview
    from memlake.jobs import JobOverview, Rank

__all__ = ["page_of"]


def page_of(found: JobOverview, *, num_sites: int = 10, steps: bool = False) -> Page:
    """Returns the overview of a job as a page.

    Args:
        found: the overview.
        num_sites: how many call sites of the worst rank to show.
        steps: whether to show the steps of the worst rank.
    """
    page = Page()
    facts = found.ranks[0].facts
    more = ""
    if found.is_one_job and facts.ran_under:
        where = "torch_npu" if facts.settings.accelerator == "npu" else "torch"
        more = f"; {where} {facts.settings.torch} (by the form of the files), ran under {facts.ran_under}"
    add_head(page, found, more)
    columns = RankColumns(found)
    headers = (*columns.headers, "ran out of memory")
    numbers = ("live peak", "held peak", "held at end", "largest free", "device")
    rows = [(*columns.cells(rank), *_line(rank)) for rank in found.ranks]
    page.table((*headers, *numbers), rows, left=len(headers))
    page.line()
    if found.is_one_job:
        add_spread(page, {"live peak": found.live, "held peak": found.held})
    add_notes(page, found)
    page.paragraph(found.sentence)
    page.line()
    worst = found.worst
    page.paragraph(f"Look first at {worst.file.title}, {found.why_worst}; all of it with:")
    page.line(f"  memlake show {quote(worst.file.path)}")
    page.line()
    if worst.result.shortage is not None:
        page.paragraph(worst.result.shortage.sentence)
        page.line()
    page.add(peak.page_of(worst.result.peak, num_sites=num_sites))
    if steps:
        add_steps(page, worst.result)
    for note in worst.result.notes:
        page.paragraph(note)
    return page


def _line(rank: Rank[Overview]) -> tuple[str, ...]:
    found = rank.result
    verdict = "no" if found.shortage is None else found.shortage.kind
    end = found.at_end
    largest = "unknown" if end is None else format_bytes(end.largest_free)
    return (
        verdict if found.shortage is None else f"yes: {verdict}",
        "unknown" if found.peak.scope == "moment" else format_bytes(found.peak.nbytes),
        size(found.held_peak),
        size(None if end is None else end.held),
        largest,
        "-" if found.device is None else str(found.device),
    )
