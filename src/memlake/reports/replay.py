"""The report of one replay: all figures, and the held memory over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.reports.terminal import print_table, print_text
from memlake.reports.trust import print_trust
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.replaying import ReplayResult, Timeline

__all__ = ["print_replay"]

_BAR = 40


def print_replay(result: ReplayResult, num_rows: int, notes: Sequence[str] = ()) -> None:
    """Prints every figure of a replay of a trace with `num_rows` rows, and what a reader must know about the trace."""
    used = result.utilization
    modelled = result.modelled_driver_ms
    figures = [
        ("policy", result.label),
        ("outcome", {"ok": "fits", "oom": "runs out of memory"}.get(result.outcome, "unknown")),
        ("history", result.history.kind),
        ("rows replayed", f"{result.rows} of {num_rows}"),
        ("device", format_bytes(result.capacity)),
        ("limit", "none" if result.limit is None else format_bytes(result.limit)),
        ("live peak", format_bytes(result.peak_live)),
        ("requested peak", format_bytes(result.peak_requested)),
        ("allocated peak", format_bytes(result.peak_allocated)),
        ("held peak", format_bytes(result.peak_held)),
        ("live peak / held peak", "-" if used is None else f"{used:.4f}"),
        ("requests without memory", str(result.num_ooms)),
        ("retries", str(result.num_alloc_retries)),
        ("waits in the host", str(result.host_waits)),
        ("driver time on an A100", "-" if modelled is None else f"{modelled:.1f} ms"),
        ("CPU per row", f"{result.ns_per_event:.0f} ns"),
        *((call, f"{count} x") for call, count in result.driver_calls.items()),
    ]
    print_table(("figure", "value"), figures, left=2)
    print()
    if result.timeline is not None:
        _print_timeline(result.timeline, result.capacity)
        print()
    print_trust(None, [note for note in notes if note not in result.sentence])
    print_text(result.sentence)


def _print_timeline(timeline: Timeline, capacity: int) -> None:
    rows = []
    for row, allocated, held in zip(
        timeline.rows.tolist(), timeline.allocated.tolist(), timeline.held.tolist(), strict=True
    ):
        used = _BAR * allocated // capacity
        cached = _BAR * held // capacity - used
        bar = "#" * used + "-" * cached
        rows.append((f"{bar:<{_BAR}}|", str(row), format_bytes(allocated), format_bytes(held)))
    print_table(("# allocated, - held and free, | the device's end", "row", "allocated", "held"), rows, left=1)
