"""The tables of one replay: all figures, and the held memory over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.tables.page import Page
from memlake.tables.trust import add_trust
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.replaying import ReplayResult, Timeline

__all__ = ["page_of"]

_BAR = 40


def page_of(result: ReplayResult) -> Page:
    """Returns every figure of a replay, and what a reader must know about the trace."""
    page = Page()
    used = result.utilization
    modelled = result.modelled_driver_ms
    figures = [
        ("policy", result.label),
        ("outcome", {"ok": "fits", "oom": "runs out of memory"}.get(result.outcome, "unknown")),
        ("history", result.history.kind),
        ("rows replayed", f"{result.rows} of {result.num_rows}"),
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
    page.table(("figure", "value"), figures, left=2)
    page.line()
    if result.timeline is not None:
        _add_timeline(page, result.timeline, result.capacity)
        page.line()
    add_trust(page, None, [note for note in result.notes if note not in result.sentence])
    page.paragraph(result.sentence)
    return page


def _add_timeline(page: Page, timeline: Timeline, capacity: int) -> None:
    rows = []
    for row, allocated, held in zip(
        timeline.rows.tolist(), timeline.allocated.tolist(), timeline.held.tolist(), strict=True
    ):
        used = _BAR * allocated // capacity
        cached = _BAR * held // capacity - used
        bar = "#" * used + "-" * cached
        rows.append((f"{bar:<{_BAR}}|", str(row), format_bytes(allocated), format_bytes(held)))
    page.table(("# allocated, - held and free, | the device's end", "row", "allocated", "held"), rows, left=1)
