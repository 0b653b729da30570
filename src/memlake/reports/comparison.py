"""The report of a comparison: a table with one line per policy, and advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.reports.terminal import print_table, print_text
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.analysis import Comparison
    from memlake.replaying import ReplayResult

__all__ = ["print_comparison"]


def print_comparison(comparison: Comparison) -> None:
    """Prints a table with one line per policy, then the advice."""
    print(
        f"device {format_bytes(comparison.capacity)}, live peak {format_bytes(comparison.peak_live)}, "
        f"{comparison.num_rows} rows\n"
    )
    headers = ("policy", "outcome", "held peak", "live/held", "retries", "waits", "calls", "driver ms", "ns/row")
    print_table(headers, [_line(result) for result in comparison], left=2)
    print()
    for name, summary in {result.policy: result.options.summary for result in comparison}.items():
        print(f"{name}: {summary}")
    print()
    print_text(comparison.sentence)


def _line(result: ReplayResult) -> tuple[str, ...]:
    failure = result.failure
    used = result.utilization
    modelled = result.modelled_driver_ms
    return (
        result.label,
        "fits" if failure is None else f"out of memory at row {failure.row}",
        format_bytes(result.peak_held),
        "-" if used is None else f"{used:.3f}",
        str(result.num_alloc_retries),
        str(result.host_waits),
        str(sum(count for call, count in result.driver_calls.items() if call.startswith("cuMem"))),
        "-" if modelled is None else f"{modelled:.1f}",
        f"{result.ns_per_event:.0f}",
    )
