"""The page of ``memlake doctor --compare``: how a hardware report differs from what memlake assumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.tables.page import Page

if TYPE_CHECKING:
    from memlake.hardware import Differences

__all__ = ["page_of"]


def page_of(differences: Differences) -> Page:
    """Returns a table of all differences, or a sentence that there are none."""
    page = Page()
    report = differences.report
    if not differences.found:
        page.paragraph(f"{report.gpu} (driver {report.driver_version}) is as the emulator and the cost model assume.")
        return page
    rows = [(one.topic, one.name, one.assumed, one.found, one.meaning) for one in differences.found]
    page.table(("topic", "what", "assumed", "found", "so"), rows, left=5)
    page.line()
    page.paragraph(
        f"{report.gpu} (driver {report.driver_version}) differs in {len(differences.found)} points from what the "
        "emulator and the cost model assume."
    )
    return page
