"""The report of an overview: what a file tells about a job, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.reports.terminal import print_table, print_text, visible
from memlake.trace.categories import RULES, UNKNOWN
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.analysis import Overview
    from memlake.analysis.held_split import HeldSplit
    from memlake.trace import Peak

__all__ = ["print_overview"]

_MOST_NAMES = 4
_LONGEST_SITE = 60


def print_overview(found: Overview, *, num_sites: int, steps: bool) -> None:
    """Prints the overview.

    Args:
        found: the overview.
        num_sites: how many call sites to print.
        steps: whether to print the steps.
    """
    for name, text in _facts(found):
        print(visible(f"{name:<9} {text}"))
    print()
    if found.at_end is not None:
        _print_split(found.at_end)
    if found.shortage is not None:
        print_text(found.shortage.sentence)
        if found.num_shortages > 1:
            print_text(f"It is the last of {found.num_shortages} refused requests in the file.")
        print()
    _print_peak(found.peak, num_sites)
    if steps:
        _print_steps(found)
    if found.reproduction is not None:
        print()
        print(visible(found.reproduction.sentence))
        if not found.reproduction.is_exact:
            print_text("That concerns replays of the file; the figures above are read from the file.")
    for note in found.notes:
        print_text(note)


def _facts(found: Overview) -> list[tuple[str, str]]:
    policy = found.settings.policy
    facts = [("file", f"{found.source or 'trace'}, {found.num_rows:,} rows, {found.num_allocations:,} allocations")]
    if policy is not None:
        where = "torch_npu" if found.settings.accelerator == "npu" else "torch"
        facts.append((where, f"{found.settings.torch} (by the form of the file), ran under {policy.label}"))
    facts.append(("history", found.history.kind + (f": {found.history.reason}" if found.history.reason else "")))
    streams = f"{found.num_streams} stream{'s' * (found.num_streams != 1)}"
    pools = len(found.private_pools)
    device = "" if found.device is None else f"{found.device} of {len(found.held_on_devices)} in the file, "
    facts.append(("device", f"{device}{streams}, {pools} private pool{'s' * (pools != 1)}"))
    if found.at_end is not None:
        end = found.at_end
        largest = format_bytes(end.largest_free) if end.largest_free else "none"
        facts.append(
            (
                "at end",
                f"allocated {format_bytes(end.allocated)}, held {format_bytes(end.held)} in {end.num_segments} "
                f"segments, largest free piece {largest}",
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


def _print_split(split: HeldSplit) -> None:
    in_use = split.allocated if split.requested is None else split.requested
    rows: list[tuple[str, int | None, str]] = [
        ("in use", in_use, "rounding included" if split.requested is None else "what the program asked for"),
        ("rounding", split.rounding, "in blocks in use, not asked for"),
        ("external", split.external, "free pieces between blocks in use"),
        ("pending", split.pending, "freed, but a stream may still use it"),
        ("cached", split.cached, "free, and PyTorch can give it back to the driver"),
        ("private pools", split.in_private_pools, "free in private pools, which other requests cannot have"),
    ]
    if split.not_in_blocks:
        rows.append(("contradiction", split.not_in_blocks, "in segments, but in no block of the file"))
    shown = [
        (name, what, *(("unknown", "-") if size is None else (format_bytes(size), _share(size, split.held))))
        for name, size, what in rows
    ]
    print_table(("held at end", "what it is", "bytes", "share"), shown, left=2)
    print()


def _print_peak(peak: Peak, num_sites: int) -> None:
    print(visible(peak.sentence))
    if not peak.rows:
        return
    shown = peak.rows[:num_sites]
    rows = [
        (
            _short(row.site.text),
            row.site.rule,
            format_bytes(row.nbytes),
            _share(row.nbytes, peak.nbytes),
            f"{row.count:,}",
        )
        for row in shown
    ]
    if rest := peak.rows[num_sites:]:
        nbytes = sum(row.nbytes for row in rest)
        name = f"({len(rest):,} more call sites: --sites)"
        rows.append(
            (name, "", format_bytes(nbytes), _share(nbytes, peak.nbytes), f"{sum(row.count for row in rest):,}")
        )
    print_table(("call site", "found by", "bytes", "share", "count"), rows, left=2)
    print()
    if set(peak.categories) == {UNKNOWN}:
        print("By category: unknown, no rule decides it.")
        return
    categories = [
        (name, RULES[name], format_bytes(nbytes), _share(nbytes, peak.nbytes))
        for name, nbytes in peak.categories.items()
    ]
    print_table(("category", "rule", "bytes", "share"), categories, left=2)


def _print_steps(found: Overview) -> None:
    print()
    if not found.steps:
        print_text(
            "The steps are not known: the trace has no rows for them, and the file no annotations that end them."
        )
        return
    print_text(f"{len(found.steps)} step{'s' * (len(found.steps) != 1)}; {found.steps_known_by}.")
    rows = [
        (
            str(step.number),
            f"{step.start} to {step.stop - 1}",
            format_bytes(step.peak_live),
            format_bytes(step.end_live),
        )
        for step in found.steps
    ]
    print_table(("step", "rows", "live peak", "live at its end"), rows, left=1)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SITE else text[: _LONGEST_SITE - 3] + "..."
