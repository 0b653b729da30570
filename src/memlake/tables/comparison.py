"""The table of a comparison, with one line per policy, and its advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.tables.outcomes import OUTCOMES
from memlake.tables.page import Page
from memlake.tables.trust import add_trust
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.analysis import Comparison
    from memlake.replaying import ReplayResult

__all__ = ["page_of"]


def page_of(comparison: Comparison) -> Page:
    """Returns a table with one line per policy, then the advice."""
    page = Page()
    page.line(
        f"device {format_bytes(comparison.capacity)}, live peak {format_bytes(comparison.peak_live)}, "
        f"{comparison.num_rows} rows"
    )
    if comparison.origin:
        page.paragraph(comparison.origin)
    page.line()
    headers = ("policy", "outcome", "held peak", "live/held", "retries", "waits", "calls", "driver ms", "ns/row")
    page.table(headers, [_line(result, _settings(comparison)) for result in comparison], left=2)
    page.line()
    if settings := _settings(comparison):
        page.paragraph(f"*: with the settings of the job, {settings}")
    own = {result.policy for result in comparison if comparison.is_own(result)}
    for name, summary in {result.policy: result.options.summary for result in comparison}.items():
        page.line(f"{name}: {summary}{'; the job ran under it' if name in own else ''}")
    page.line()
    add_trust(page, comparison.reproduction, comparison.notes)
    page.paragraph(comparison.sentence)
    return page


def _settings(comparison: Comparison) -> str:
    """Returns the settings of the job that differ from the defaults; empty if there are none."""
    policy = comparison.settings.policy
    return "" if policy is None else policy.to_text()


def _line(result: ReplayResult, settings: str) -> tuple[str, ...]:
    row = result.rows if result.failure is None else result.failure.row
    used = result.utilization
    modelled = result.modelled_driver_ms
    # The settings of a job may be long, and a table has at least two rows with them.
    has_them = settings and result.options.to_text() == settings
    return (
        f"{result.policy}*" if has_them else result.label,
        OUTCOMES[result.outcome] + (f" at row {row}" if result.outcome == "oom" else ""),
        format_bytes(result.peak_held),
        "-" if used is None else f"{used:.3f}",
        str(result.num_alloc_retries),
        str(result.host_waits),
        str(result.num_memory_calls),
        "-" if modelled is None else f"{modelled:.1f}",
        f"{result.ns_per_event:.0f}",
    )
