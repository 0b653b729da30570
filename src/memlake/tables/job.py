"""The parts that the tables about jobs of several ranks share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlake.tables.terminal import visible
from memlake.units import format_bytes
from memlake.wording import counted, shorten_middle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memlake.jobs import JobAdvice, JobAnswer, JobComparison, Rank, Spread
    from memlake.sweeping import Sweep
    from memlake.tables.page import Page

__all__ = [
    "RankColumns",
    "add_head",
    "add_head_with_device",
    "add_left_out",
    "add_notes",
    "add_spread",
    "add_worst",
    "live_peak",
    "shortened",
    "size",
]

_LONGEST_LABEL = 32


class RankColumns:
    """The first columns of a table with a line per rank: the rank or the file, and its history unless all are complete.

    Args:
        answer: the answer for all ranks.

    Attributes:
        headers: the headers of the columns.
    """

    def __init__(self, answer: JobAnswer[Any]) -> None:
        self._with_history = any(rank.history.kind != "complete" for rank in answer.ranks)
        self.headers = ("rank" if answer.numbered_by else "file", *(("history",) if self._with_history else ()))

    def cells(self, rank: Rank[Any]) -> tuple[str, ...]:
        """Returns the cells of a rank."""
        return (shortened(rank.label), *((rank.history.kind,) if self._with_history else ()))


def add_head_with_device(page: Page, answer: JobComparison | JobAdvice) -> None:
    """Adds the head, the device of all ranks, and where its size comes from."""
    add_head(page, answer, "" if answer.capacity is None else f", device {format_bytes(answer.capacity)}")
    if answer.origin:
        page.paragraph(answer.origin)
        page.line()


def add_head(page: Page, answer: JobAnswer[Any], more: str = "") -> None:
    """Adds how many files there are, what was left out, and a warning if they are of different jobs."""
    add_left_out(page, answer, len(answer.ranks) + len(answer.unreadable), more)
    if not answer.is_one_job:
        page.paragraph(answer.notes[0])
    page.line()


def add_left_out(page: Page, answer: JobAnswer[Any] | Sweep, total: int, more: str = "") -> None:
    """Adds how many files there are, and what was left out."""
    what = counted(total, "rank" if answer.numbered_by else "file")
    left_out = []
    if answer.num_ignored:
        names = ", ".join(shortened(name) for name in answer.ignored)
        more_names = f" and {rest} more" if (rest := answer.num_ignored - len(answer.ignored)) else ""
        left_out.append(f"{counted(answer.num_ignored, 'other file')} ignored: {names}{more_names}")
    if answer.num_repeated:
        left_out.append(f"{answer.num_repeated} named twice")
    page.paragraph(what + (f" ({'; '.join(left_out)})" if left_out else "") + more)


def add_notes(page: Page, answer: JobAnswer[Any]) -> None:
    """Adds the verification of all files and the notes that the head does not have, followed by an empty line."""
    notes = [*filter(None, [answer.verification]), *answer.notes[0 if answer.is_one_job else 1 :]]
    for note in notes:
        page.paragraph(note)
    if notes:
        page.line()


def add_spread(page: Page, spreads: Mapping[str, Spread | None]) -> None:
    """Adds a table with the smallest, the middle and the largest of each figure, followed by an empty line."""
    known = {name: spread for name, spread in spreads.items() if spread is not None}
    if not known:
        return
    rows = [
        (
            name,
            f"{format_bytes(spread.least)} ({shortened(spread.least_rank)})",
            format_bytes(spread.median),
            f"{format_bytes(spread.most)} ({shortened(spread.most_rank)})",
        )
        for name, spread in known.items()
    ]
    page.table(("spread", "min (whose)", "median", "max (whose)"), rows)
    page.line()


def live_peak(rank: Rank[Any]) -> str:
    """Returns the live peak of a rank for a cell. A file without a history does not tell it."""
    return "unknown" if rank.history.kind == "state" else format_bytes(rank.peak_live)


def add_worst(page: Page, text: str, notes: Sequence[str]) -> None:
    """Adds what is known of the worst rank, and the notes about its file that the text does not have."""
    page.paragraph(text)
    for note in notes:
        if note not in text:
            page.paragraph(note)


def size(nbytes: int | None) -> str:
    """Returns a size for a cell; ``"unknown"`` if it is not known."""
    return "unknown" if nbytes is None else format_bytes(nbytes)


def shortened(label: str) -> str:
    """Returns a label for a table. Names of files may be very long; their ends tell more than their middles."""
    text = visible(label)
    # One character less than allowed: both halves then have the same length.
    return text if len(text) <= _LONGEST_LABEL else shorten_middle(text, _LONGEST_LABEL - 1)
