"""The report of an overview of several ranks: one line per rank, the spread, and the rank that is worst off."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from memlake.reports.job import histories, print_head, print_notes, print_spread, rank_column, shortened, size
from memlake.reports.overview import print_peak, print_steps
from memlake.reports.terminal import print_table, print_text, visible
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.analysis import Overview
    from memlake.jobs import JobOverview, Rank

__all__ = ["print_job_overview"]


def print_job_overview(found: JobOverview, *, num_sites: int, steps: bool) -> None:
    """Prints the overview of a job.

    Args:
        found: the overview.
        num_sites: how many call sites of the worst rank to print.
        steps: whether to print the steps of the worst rank.
    """
    settings = found.ranks[0].facts.settings
    more = ""
    if found.is_one_job and settings.policy is not None:
        where = "torch_npu" if settings.accelerator == "npu" else "torch"
        more = f"; {where} {settings.torch} (by the form of the files), ran under {settings.policy.label}"
    print_head(found, more)
    is_all_complete = not histories(found.ranks)
    headers = (rank_column(found), *(() if is_all_complete else ("history",)), "ran out of memory")
    numbers = ("live peak", "held peak", "held at end", "largest free", "device")
    rows = [_line(rank, is_all_complete) for rank in found.ranks]
    print_table((*headers, *numbers), rows, left=len(headers))
    print()
    if found.is_one_job:
        print_spread({"live peak": found.live, "held peak": found.held})
    print_notes(found)
    print_text(found.sentence)
    print()
    worst = found.worst
    print_text(f"Look first at {worst.file.title}, {found.why_worst}; all of it with:")
    print(visible(f"  memlake show {quote(worst.file.path)}"))
    print()
    if worst.result.shortage is not None:
        print_text(worst.result.shortage.sentence)
        print()
    print_peak(worst.result.peak, num_sites)
    if steps:
        print_steps(worst.result)
    for note in worst.result.notes:
        print_text(note)


def _line(rank: Rank[Overview], is_all_complete: bool) -> tuple[str, ...]:
    found = rank.result
    verdict = "no" if found.shortage is None else found.shortage.kind
    end = found.at_end
    largest = "unknown" if end is None else format_bytes(end.largest_free)
    return (
        shortened(rank.label),
        *(() if is_all_complete else (rank.history.kind,)),
        verdict if found.shortage is None else f"yes: {verdict}",
        "unknown" if found.peak.scope == "moment" else format_bytes(found.peak.nbytes),
        size(found.held_peak),
        size(None if end is None else end.held),
        largest,
        "-" if found.device is None else str(found.device),
    )
