"""The tables of a sweep: one table per device with a line per file, one line per setting, and the setting for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlake.tables.job import add_left_out, shortened
from memlake.tables.page import Page
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.sweeping import Sweep, SweepSetting

__all__ = ["outcome_on_all", "page_of"]

_MOST_NAMED = 4


def page_of(found: Sweep) -> Page:
    """Returns what each file holds under each setting, then what each setting does on all files, then the answer."""
    page = Page()
    add_left_out(page, found, len(found.files) + len(found.unreadable), f", {len(found.settings)} settings")
    page.line()
    for capacity in dict.fromkeys(setting.capacity for setting in found.settings):
        _add_device(page, found, capacity)
    page.paragraph("A size is the held peak; OOM: it runs out of memory; unknown: the file cannot tell.")
    page.line()
    _add_settings(page, found)
    if found.missing:
        numbers = [str(number) for number in found.missing]
        more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
        page.paragraph(f"There is no file of these ranks: {', '.join(numbers[:_MOST_NAMED])}{more}.")
        page.line()
    page.paragraph(found.sentence)
    return page


def _add_device(page: Page, found: Sweep, capacity: int) -> None:
    places = [place for place, setting in enumerate(found.settings) if setting.capacity == capacity]
    page.line(f"device {format_bytes(capacity)}")
    page.line()
    rows = [
        (shortened(file.label), format_bytes(file.peak_live), *(_cell(file.rows[place]) for place in places))
        for file in found.files
    ]
    labels = [found.settings[place].options.label for place in places]
    page.table(("rank" if found.numbered_by else "file", "live peak", *labels), rows)
    page.line()


def _cell(row: dict[str, Any]) -> str:
    return {"ok": format_bytes(row["peak_held"]), "oom": "OOM"}.get(row["outcome"], "unknown")


def _add_settings(page: Page, found: Sweep) -> None:
    rows = []
    for one in found.over_files:
        held = one.held
        sizes = ("-", "-", "-") if held is None else tuple(map(format_bytes, (held.least, held.median, held.most)))
        driver = "-" if one.driver_ms is None else f"{one.driver_ms:.1f}"
        device = format_bytes(one.setting.capacity)
        rows.append((one.setting.options.label, device, outcome_on_all(one), *sizes, driver, str(one.stalls)))
    headers = ("policy", "device", "on all files", "held, min", "median", "max", "driver ms, max", "stalls, max")
    page.table(headers, rows, left=3)
    page.line()


def outcome_on_all(one: SweepSetting) -> str:
    """Returns what a setting does on all files, as text."""
    if one.outcome == "ok":
        return "fits"
    what, labels = ("unknown", one.undecided) if one.outcome == "unknown" else ("out of memory", one.failing)
    names = f" ({', '.join(map(shortened, labels))})" if len(labels) <= _MOST_NAMED else ""
    return f"{what} on {len(labels)} of {len(one.rows)}{names}"
