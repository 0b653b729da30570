"""The tables of advice for several ranks: one line per rank, the rank that decides, and one setting to paste."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.tables.advice import add_settings
from memlake.tables.job import (
    RankColumns,
    add_head_with_device,
    add_notes,
    add_spread,
    add_worst,
    live_peak,
)
from memlake.tables.outcomes import OUTCOMES
from memlake.tables.page import Page
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.analysis import Advice
    from memlake.jobs import JobAdvice, Rank

__all__ = ["page_of"]


def page_of(advice: JobAdvice) -> Page:
    """Returns what each rank holds under its own settings, the worst rank, and then the setting for all ranks."""
    page = Page()
    add_head_with_device(page, advice)
    _add_ranks(page, advice)
    if advice.is_one_job:
        add_spread(page, {"live peak": advice.live})
    add_notes(page, advice)
    worst = advice.worst
    _add_worst(page, worst)
    for need in worst.result.needs:
        page.paragraph(need.sentence)
    if worst.result.is_ruled_out:
        page.paragraph(f"The job ran under {worst.result.own.label}, which is ruled out.")
    if advice.num_tried:
        page.paragraph(f"{worst.result.search} {advice.num_tried} settings were replayed on every rank.")
    page.line()
    if advice.recommendation is None:
        page.paragraph(advice.sentence)
        return page
    page.line("Recommendation for every rank; gain and price are the worst of all ranks:")
    add_settings(page, advice.recommendation, advice.alternatives)
    if advice.unreadable:
        page.paragraph("The files that could not be read may need more.")
    if past := next(filter(None, (one.result.comparison.after_oom for one in advice.ranks)), ""):
        page.line()
        page.paragraph(past)
    return page


def _add_ranks(page: Page, advice: JobAdvice) -> None:
    columns = RankColumns(advice)
    chosen = advice.recommendation
    shown = chosen is not None or not advice.is_one_job
    left = (*columns.headers, "its own settings")
    headers = (*left, "live peak", "held peak", *(("recommended",) if shown else ()), "stalls", "driver ms")
    rows = []
    for rank in advice.ranks:
        own = rank.result.own
        cells: tuple[str, ...] = ()
        if chosen is not None:
            cells = (format_bytes(chosen.settings[rank.label].result.peak_held),)
        elif shown:
            alone = rank.result.recommendation
            cells = ("-" if alone is None else format_bytes(alone.result.peak_held),)
        modelled = own.modelled_driver_ms
        rows.append(
            (
                *columns.cells(rank),
                OUTCOMES[own.outcome],
                live_peak(rank),
                format_bytes(own.peak_held) if own.fits else "-",
                *cells,
                str(own.stalls),
                "-" if modelled is None else f"{modelled:.1f}",
            )
        )
    page.table(headers, rows, left=len(left))
    if chosen is not None:
        page.paragraph('"recommended": the held peak with the setting that is recommended below.')
    elif shown:
        page.paragraph('"recommended": the held peak with what memlake advise recommends for the file alone.')
    page.line()


def _add_worst(page: Page, worst: Rank[Advice]) -> None:
    own = worst.result.own
    past = f"{worst.result.comparison.oom.sentence} " if worst.result.comparison.oom is not None else ""
    add_worst(page, f"The worst is {worst.file.title}. {past}{own.sentence}", worst.result.comparison.notes)
