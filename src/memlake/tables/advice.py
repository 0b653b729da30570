"""The tables of `advise`: the verdict, the overhead, a table of policies, and settings to paste."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.tables.outcomes import OUTCOMES
from memlake.tables.page import Page
from memlake.tables.trust import add_trust
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.analysis import Advice
    from memlake.analysis.setting import Setting
    from memlake.jobs import JobSetting
    from memlake.replaying import ReplayResult

__all__ = ["add_settings", "page_of"]


def page_of(advice: Advice) -> Page:
    """Returns the verdict first if nothing can fit or be decided; else the figures, and then the settings."""
    page = Page()
    comparison = advice.comparison
    page.line(f"device {format_bytes(comparison.capacity)}, live peak {format_bytes(advice.lower_bound)}")
    if comparison.origin:
        page.paragraph(comparison.origin)
    page.line()
    if not advice.tried:
        page.paragraph(advice.sentence)
        if comparison.reproduction is not None or comparison.notes:
            page.line()
        add_trust(page, comparison.reproduction, comparison.notes)
        return page
    if comparison.oom is not None:
        page.paragraph(comparison.oom.sentence)
        page.line()
    headers = ("policy", "outcome", "held peak", "over live", "stalls", "driver ms")
    page.table(headers, [_line(result, advice) for result in comparison], left=2)
    page.line()
    add_trust(page, comparison.reproduction, comparison.notes)
    if advice.own.ran:
        page.paragraph(advice.overhead_sentence)
    for need in advice.needs:
        page.paragraph(need.sentence)
    if advice.is_ruled_out:
        page.paragraph(f"The job ran under {advice.own.label}, which is ruled out.")
    page.paragraph(f"{advice.search} {len(advice.tried)} replays.")
    page.line()
    if advice.recommendation is None:
        page.paragraph(advice.sentence)
        _add_memlake(page, advice)
        return page
    page.line("Recommendation:")
    add_settings(page, advice.recommendation, advice.alternatives)
    _add_memlake(page, advice)
    if comparison.after_oom:
        page.line()
        page.paragraph(comparison.after_oom)
    return page


def _add_memlake(page: Page, advice: Advice) -> None:
    if (setting := advice.with_memlake) is not None:
        page.line()
        page.line("With memlake as PyTorch's allocator:")
        _add_setting(page, setting)


def _line(result: ReplayResult, advice: Advice) -> tuple[str, ...]:
    ruled_out = advice.ruled_out_by(result)
    outcome = OUTCOMES[result.outcome] + (f", ruled out by {ruled_out[0]}" if ruled_out else "")
    modelled = result.modelled_driver_ms
    return (
        result.label,
        outcome,
        format_bytes(result.peak_held),
        format_bytes(result.held_over_live) if result.ran else "-",
        str(result.stalls),
        "-" if modelled is None else f"{modelled:.1f}",
    )


def add_settings(
    page: Page, recommended: Setting | JobSetting, alternatives: Sequence[Setting] | Sequence[JobSetting]
) -> None:
    """Adds the recommended setting, and then the alternatives under a heading of their own."""
    _add_setting(page, recommended)
    if alternatives:
        page.line()
        page.line("Alternatives:")
        for setting in alternatives:
            _add_setting(page, setting)


def _add_setting(page: Page, setting: Setting | JobSetting) -> None:
    """Adds the line to paste, its gain, its price, and what a reader must know about it."""
    page.line(f"  {setting.line}")
    page.line(f"    gain: {setting.gain}")
    page.line(f"    price: {setting.price}")
    if setting.note:
        page.line(f"    note: {setting.note}")
