"""The report of `advise`: the verdict, the overhead, a table of policies, and settings to paste."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.reports.terminal import print_table, print_text, visible
from memlake.reports.trust import print_trust
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.analysis import Advice
    from memlake.analysis.setting import Setting
    from memlake.replaying import ReplayResult

__all__ = ["print_advice"]

_OUTCOMES = {"ok": "fits", "unknown": "unknown", "oom": "out of memory"}


def print_advice(advice: Advice) -> None:
    """Prints the verdict first if nothing can fit or be decided; else the figures, and then the settings."""
    comparison = advice.comparison
    print(f"device {format_bytes(comparison.capacity)}, live peak {format_bytes(advice.lower_bound)}")
    if comparison.origin:
        print_text(comparison.origin)
    print()
    if not advice.tried:
        print_text(advice.sentence)
        if comparison.reproduction is not None or comparison.notes:
            print()
        print_trust(comparison.reproduction, comparison.notes)
        return
    if comparison.oom is not None:
        print_text(comparison.oom.sentence)
        print()
    _print_policies(advice)
    print_trust(comparison.reproduction, comparison.notes)
    _print_overhead(advice)
    for need in advice.needs:
        print_text(need.sentence)
    if advice.is_ruled_out:
        print_text(f"The job ran under {advice.own.label}, which is ruled out.")
    print_text(f"{advice.search} {len(advice.tried)} replays.")
    print()
    if advice.recommendation is None:
        print_text(advice.sentence)
        return
    print("Recommendation:")
    _print_setting(advice.recommendation)
    if advice.alternatives:
        print("\nAlternatives:")
        for setting in advice.alternatives:
            _print_setting(setting)
    if comparison.oom is not None and comparison.oom.is_last:
        print()
        print_text("The job died at its last request, so what it would have needed after it is not in the file.")


def _print_policies(advice: Advice) -> None:
    headers = ("policy", "outcome", "held peak", "over live", "stalls", "driver ms")
    print_table(headers, [_line(result, advice) for result in advice.comparison], left=2)
    print()


def _line(result: ReplayResult, advice: Advice) -> tuple[str, ...]:
    ruled_out = [need.name for need in advice.needs if need.rules_out(result.options)]
    outcome = _OUTCOMES[result.outcome] + (f", ruled out by {ruled_out[0]}" if ruled_out else "")
    modelled = result.modelled_driver_ms
    over = format_bytes(result.peak_held - advice.lower_bound) if result.ran else "-"
    return (
        result.label,
        outcome,
        format_bytes(result.peak_held),
        over,
        str(result.num_alloc_retries + result.host_waits),
        "-" if modelled is None else f"{modelled:.1f}",
    )


def _print_overhead(advice: Advice) -> None:
    if not advice.own.ran:
        return
    overhead = advice.overhead
    private = overhead["private_pools"]
    held_back = f"; private pools hold back {format_bytes(private)} more" if private else ""
    held, live = format_bytes(advice.own.peak_held), format_bytes(advice.lower_bound)
    print_text(
        f"{advice.own.label} holds {held} at its peak: {live} live, which no allocator can go below, "
        f"{format_bytes(overhead['rounding'])} rounding of blocks, and {format_bytes(overhead['unused'])} in free "
        f"blocks, scattered or cached{held_back}."
    )


def _print_setting(setting: Setting) -> None:
    print(f"  {visible(setting.line)}")
    print(f"    gain: {visible(setting.gain)}")
    print(f"    price: {visible(setting.price)}")
    if setting.note:
        print(f"    note: {visible(setting.note)}")
