"""The tables of an overview: what a file tells about a job, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.tables import peak
from memlake.tables.page import Page
from memlake.tables.shares import share
from memlake.units import format_bytes
from memlake.wording import counted, plural

if TYPE_CHECKING:
    from memlake.analysis import Overview
    from memlake.analysis.held_split import HeldSplit

__all__ = ["add_steps", "page_of"]


def page_of(found: Overview, *, num_sites: int = 10, steps: bool = False) -> Page:
    """Returns the overview as a page.

    Args:
        found: the overview.
        num_sites: how many call sites to show.
        steps: whether to show the steps.
    """
    page = Page()
    for name, text in _facts(found):
        page.line(f"{name:<9} {text}")
    page.line()
    if found.at_end is not None:
        _add_split(page, found.at_end)
    if found.shortage is not None:
        page.paragraph(found.shortage.sentence)
        if found.num_shortages > 1:
            page.paragraph(f"It is the last of {found.num_shortages} refused requests in the file.")
        page.line()
    page.add(peak.page_of(found.peak, num_sites=num_sites))
    if steps:
        add_steps(page, found)
    if found.reproduction is not None:
        page.line()
        page.line(found.reproduction.sentence)
        if not found.reproduction.is_exact:
            page.paragraph("That concerns replays of the file; the figures above are read from the file.")
    for note in found.notes:
        page.paragraph(note)
    return page


def _facts(found: Overview) -> list[tuple[str, str]]:
    policy = found.settings.policy
    rows = f"{found.num_rows:,} {plural(found.num_rows, 'row')}"
    allocations = f"{found.num_allocations:,} {plural(found.num_allocations, 'allocation')}"
    facts = [("file", f"{found.source or 'trace'}, {rows}, {allocations}")]
    if policy is not None:
        where = "torch_npu" if found.settings.accelerator == "npu" else "torch"
        facts.append((where, f"{found.settings.torch} (by the form of the file), ran under {policy.label}"))
    elif found.settings.memlake:
        facts.append(
            ("torch", f"{found.settings.torch} (by the form of the file), ran under memlake ({found.settings.memlake})")
        )
    facts.append(("history", found.history.text))
    streams = counted(found.num_streams, "stream")
    pools = counted(len(found.private_pools), "private pool")
    device = "" if found.device is None else f"{found.device} of {len(found.held_on_devices)} in the file, "
    facts.append(("device", f"{device}{streams}, {pools}"))
    if found.capacity is not None:
        facts.append(("capacity", found.origin.removesuffix(".") or format_bytes(found.capacity)))
    if found.at_end is not None:
        end = found.at_end
        largest = format_bytes(end.largest_free) if end.largest_free else "none"
        facts.append(
            (
                "at end",
                f"allocated {format_bytes(end.allocated)}, held {format_bytes(end.held)} in "
                f"{counted(end.num_segments, 'segment')}, largest free piece {largest}",
            )
        )
    facts.append(("peak", _peaks(found)))
    return facts


def _peaks(found: Overview) -> str:
    if found.peak.scope == "moment":
        return "unknown: the file has no history"
    held = "unknown" if found.held_peak is None else format_bytes(found.held_peak)
    part = "" if found.peak.scope == "job" else " (of the recorded part)"
    return f"live {format_bytes(found.peak.nbytes)}, held {held}{part}"


def _add_split(page: Page, split: HeldSplit) -> None:
    shown = [
        (part.name, part.meaning, "unknown", "-")
        if part.nbytes is None
        else (part.name, part.meaning, format_bytes(part.nbytes), share(part.nbytes, split.held))
        for part in split.parts
    ]
    page.table(("held at end", "what it is", "bytes", "share"), shown, left=2)
    page.line()


def add_steps(page: Page, found: Overview) -> None:
    """Adds an empty line, and the steps or why they are not known."""
    page.line()
    if not found.steps:
        page.paragraph(f"The steps are not known: {found.steps_known_by}.")
        return
    page.paragraph(f"{counted(len(found.steps), 'step')}; {found.steps_known_by}.")
    rows = [
        (
            str(step.number),
            f"{step.start} to {step.stop - 1}",
            format_bytes(step.peak_live),
            format_bytes(step.end_live),
        )
        for step in found.steps
    ]
    page.table(("step", "rows", "live peak", "live at its end"), rows, left=1)
