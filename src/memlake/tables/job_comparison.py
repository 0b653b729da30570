"""The tables of a comparison for several ranks: one line per rank, one per policy, and the rank that decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.tables.job import (
    RankColumns,
    add_head_with_device,
    add_notes,
    add_spread,
    add_worst,
    live_peak,
    shortened,
)
from memlake.tables.outcomes import OUTCOMES
from memlake.tables.page import Page
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.analysis import Comparison
    from memlake.jobs import JobComparison, JobPolicy, Rank
    from memlake.replaying import ReplayResult

__all__ = ["page_of"]

_MOST_NAMED = 4


def page_of(found: JobComparison) -> Page:
    """Returns what each rank holds under each policy, then which policies fit on all ranks, then the worst rank."""
    page = Page()
    add_head_with_device(page, found)
    _add_ranks(page, found)
    if found.is_one_job:
        add_spread(page, {"live peak": found.live})
        _add_policies(page, found)
    add_notes(page, found)
    worst = found.worst
    decisive = found.decisive_of(worst)
    add_worst(page, f"The worst is {worst.file.title}. {_explained(worst, decisive)}", worst.result.notes)
    page.line()
    page.paragraph(found.sentence)
    return page


def _add_ranks(page: Page, found: JobComparison) -> None:
    # Files of different jobs have settings of their own, so only the names of the policies are common.
    names = list(dict.fromkeys(_column(result, found) for rank in found.ranks for result in rank.result))
    columns = RankColumns(found)
    left = (*columns.headers, *(() if found.is_one_job else ("outcome",)))
    rows = []
    for rank in found.ranks:
        cells = {_column(result, found): _cell(result) for result in rank.result}
        device = () if found.capacity is not None else (format_bytes(rank.result.capacity),)
        outcome = () if found.is_one_job else (OUTCOMES[rank.result.outcome],)
        start = (*columns.cells(rank), *outcome, *device, live_peak(rank))
        rows.append((*start, *(cells.get(name, "-") for name in names)))
    sizes = ("live peak",) if found.capacity is not None else ("device", "live peak")
    page.table((*left, *sizes, *names), rows, left=len(left))
    page.paragraph(
        "A size is the held peak under the policy; OOM: it runs out of memory; unknown: the file cannot tell."
    )
    page.line()


def _column(result: ReplayResult, found: JobComparison) -> str:
    return result.label if found.is_one_job else result.policy


def _cell(result: ReplayResult) -> str:
    return {"ok": format_bytes(result.peak_held), "oom": "OOM"}.get(result.outcome, "unknown")


def _add_policies(page: Page, found: JobComparison) -> None:
    rows = []
    for policy in found.policies:
        held = policy.held
        sizes = ("-", "-", "-") if held is None else tuple(map(format_bytes, (held.least, held.median, held.most)))
        rows.append((policy.options.label, _outcome_on_all(policy), *sizes))
    page.table(("policy", "on all ranks", "held, min", "median", "max"), rows, left=2)
    page.line()


def _outcome_on_all(policy: JobPolicy) -> str:
    if policy.outcome == "ok":
        return "fits"
    what, labels = ("unknown", policy.undecided) if policy.outcome == "unknown" else ("out of memory", policy.failing)
    names = f" ({', '.join(map(shortened, labels))})" if len(labels) <= _MOST_NAMED else ""
    return f"{what} on {len(labels)} of {len(policy.results)}{names}"


def _explained(worst: Rank[Comparison], decisive: ReplayResult) -> str:
    past = f"{worst.result.oom.sentence} " if worst.result.oom is not None else ""
    return past + decisive.sentence
