"""The report of a comparison for several ranks: one line per rank, one per policy, and the rank that decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.reports.job import (
    histories,
    live_peak,
    print_head,
    print_notes,
    print_spread,
    print_worst,
    rank_column,
    shortened,
)
from memlake.reports.terminal import print_table, print_text
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.analysis import Comparison
    from memlake.jobs import JobComparison, JobPolicy, Rank
    from memlake.replaying import ReplayResult

__all__ = ["outcome_on_all", "print_job_comparison"]

_MOST_NAMED = 4
_OUTCOMES = {"ok": "fits", "unknown": "unknown", "oom": "out of memory"}


def print_job_comparison(found: JobComparison) -> None:
    """Prints what each rank would hold under each policy, then which policies fit on all ranks, then the worst rank."""
    print_head(found, "" if found.capacity is None else f", device {format_bytes(found.capacity)}")
    if found.origin:
        print_text(found.origin)
        print()
    _print_ranks(found)
    if found.is_one_job:
        print_spread({"live peak": found.live})
        _print_policies(found)
    print_notes(found)
    worst = found.worst
    decisive = found.decisive_of(worst)
    print_worst(f"The worst is {worst.file.title}. {_explained(worst, decisive)}", worst.result.notes)
    print()
    print_text(found.sentence)


def _print_ranks(found: JobComparison) -> None:
    # Files of different jobs have settings of their own, so only the names of the policies are common.
    names = list(dict.fromkeys(_column(result, found) for rank in found.ranks for result in rank.result))
    kinds = histories(found.ranks)
    left = (rank_column(found), *(("history",) if kinds else ()), *(() if found.is_one_job else ("outcome",)))
    rows = []
    for rank in found.ranks:
        cells = {_column(result, found): _cell(result) for result in rank.result}
        device = () if found.capacity is not None else (format_bytes(rank.result.capacity),)
        outcome = () if found.is_one_job else (_OUTCOMES[rank.result.outcome],)
        start = (shortened(rank.label), *((rank.history.kind,) if kinds else ()), *outcome, *device, live_peak(rank))
        rows.append((*start, *(cells.get(name, "-") for name in names)))
    sizes = ("live peak",) if found.capacity is not None else ("device", "live peak")
    print_table((*left, *sizes, *names), rows, left=len(left))
    print_text("A size is the held peak under the policy; OOM: it runs out of memory; unknown: the file cannot tell.")
    print()


def _column(result: ReplayResult, found: JobComparison) -> str:
    return result.label if found.is_one_job else result.policy


def _cell(result: ReplayResult) -> str:
    return {"ok": format_bytes(result.peak_held), "oom": "OOM"}.get(result.outcome, "unknown")


def _print_policies(found: JobComparison) -> None:
    rows = []
    for policy in found.policies:
        held = policy.held
        sizes = ("-", "-", "-") if held is None else tuple(map(format_bytes, (held.least, held.median, held.most)))
        rows.append((policy.options.label, outcome_on_all(policy), *sizes))
    print_table(("policy", "on all ranks", "held, min", "median", "max"), rows, left=2)
    print()


def outcome_on_all(policy: JobPolicy) -> str:
    """Returns the outcome of a policy on all ranks for a cell."""
    if policy.outcome == "ok":
        return "fits"
    what, labels = ("unknown", policy.undecided) if policy.outcome == "unknown" else ("out of memory", policy.failing)
    names = f" ({', '.join(map(shortened, labels))})" if len(labels) <= _MOST_NAMED else ""
    return f"{what} on {len(labels)} of {len(policy.results)}{names}"


def _explained(worst: Rank[Comparison], decisive: ReplayResult) -> str:
    past = f"{worst.result.oom.sentence} " if worst.result.oom is not None else ""
    return past + decisive.sentence
