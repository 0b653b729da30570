"""The report of a comparison: a table with one line per policy, and advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.reports.terminal import print_table, print_text
from memlake.reports.trust import print_trust
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.analysis import Comparison
    from memlake.replaying import ReplayResult

__all__ = ["print_comparison"]


_OUTCOMES = {"ok": "fits", "unknown": "unknown"}


def print_comparison(comparison: Comparison) -> None:
    """Prints a table with one line per policy, then the advice."""
    print(
        f"device {format_bytes(comparison.capacity)}, live peak {format_bytes(comparison.peak_live)}, "
        f"{comparison.num_rows} rows"
    )
    if comparison.origin:
        print_text(comparison.origin)
    print()
    headers = ("policy", "outcome", "held peak", "live/held", "retries", "waits", "calls", "driver ms", "ns/row")
    print_table(headers, [_line(result, _settings(comparison)) for result in comparison], left=2)
    print()
    if settings := _settings(comparison):
        print_text(f"*: with the settings of the job, {settings}")
    own = {result.policy for result in comparison if comparison.is_own(result)}
    for name, summary in {result.policy: result.options.summary for result in comparison}.items():
        print(f"{name}: {summary}{'; the job ran under it' if name in own else ''}")
    print()
    print_trust(comparison.reproduction, comparison.notes)
    print_text(comparison.sentence)


def _settings(comparison: Comparison) -> str:
    """Returns the settings of the job that differ from the defaults; empty if there are none."""
    policy = comparison.settings.policy
    return "" if policy is None else policy.to_text()


def _line(result: ReplayResult, settings: str) -> tuple[str, ...]:
    failure = result.failure
    used = result.utilization
    modelled = result.modelled_driver_ms
    # The settings of a job may be long, and a table has at least two rows with them.
    has_them = settings and result.options.to_text() == settings
    return (
        f"{result.policy}*" if has_them else result.label,
        _OUTCOMES.get(result.outcome) or f"out of memory at row {failure.row if failure else result.rows}",
        format_bytes(result.peak_held),
        "-" if used is None else f"{used:.3f}",
        str(result.num_alloc_retries),
        str(result.host_waits),
        str(sum(count for call, count in result.driver_calls.items() if call.startswith("cuMem"))),
        "-" if modelled is None else f"{modelled:.1f}",
        f"{result.ns_per_event:.0f}",
    )
