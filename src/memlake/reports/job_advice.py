"""The report of advice for several ranks: one line per rank, the rank that decides, and one setting to paste."""

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
from memlake.reports.terminal import print_table, print_text, visible
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.analysis import Advice
    from memlake.jobs import JobAdvice, JobSetting, Rank

__all__ = ["print_job_advice"]

_OUTCOMES = {"ok": "fits", "unknown": "unknown", "oom": "out of memory"}


def print_job_advice(advice: JobAdvice) -> None:
    """Prints what each rank holds under its own settings, the worst rank, and then the setting for all ranks."""
    print_head(advice, "" if advice.capacity is None else f", device {format_bytes(advice.capacity)}")
    if advice.origin:
        print_text(advice.origin)
        print()
    _print_ranks(advice)
    if advice.is_one_job:
        print_spread({"live peak": advice.live})
    print_notes(advice)
    worst = advice.worst
    _print_worst(worst)
    for need in worst.result.needs:
        print_text(need.sentence)
    if worst.result.is_ruled_out:
        print_text(f"The job ran under {worst.result.own.label}, which is ruled out.")
    if advice.num_tried:
        print_text(f"{worst.result.search} {advice.num_tried} settings were replayed on every rank.")
    print()
    if advice.recommendation is None:
        print_text(advice.sentence)
        return
    print("Recommendation for every rank; gain and price are the worst of all ranks:")
    _print_setting(advice.recommendation)
    if advice.alternatives:
        print("\nAlternatives:")
        for setting in advice.alternatives:
            _print_setting(setting)
    if advice.unreadable:
        print_text("The files that could not be read may need more.")


def _print_ranks(advice: JobAdvice) -> None:
    kinds = histories(advice.ranks)
    chosen = advice.recommendation
    shown = chosen is not None or not advice.is_one_job
    left = (rank_column(advice), *(("history",) if kinds else ()), "its own settings")
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
                shortened(rank.label),
                *((rank.history.kind,) if kinds else ()),
                _OUTCOMES[own.outcome],
                live_peak(rank),
                format_bytes(own.peak_held) if own.fits else "-",
                *cells,
                str(own.num_alloc_retries + own.host_waits),
                "-" if modelled is None else f"{modelled:.1f}",
            )
        )
    print_table(headers, rows, left=len(left))
    if chosen is not None:
        print_text('"recommended": the held peak with the setting that is recommended below.')
    elif shown:
        print_text('"recommended": the held peak with what memlake advise recommends for the file alone.')
    print()


def _print_worst(worst: Rank[Advice]) -> None:
    own = worst.result.own
    past = f"{worst.result.comparison.oom.sentence} " if worst.result.comparison.oom is not None else ""
    print_worst(f"The worst is {worst.file.title}. {past}{own.sentence}", worst.result.comparison.notes)


def _print_setting(setting: JobSetting) -> None:
    print(f"  {visible(setting.line)}")
    print(f"    gain: {visible(setting.gain)}")
    print(f"    price: {visible(setting.price)}")
    if setting.note:
        print(f"    note: {visible(setting.note)}")
