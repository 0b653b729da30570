"""The parts that the reports about jobs of several ranks share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlake.reports.terminal import print_table, print_text, visible
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memlake.jobs import JobAnswer, Rank, Spread

__all__ = [
    "histories",
    "live_peak",
    "print_head",
    "print_notes",
    "print_spread",
    "print_worst",
    "rank_column",
    "shortened",
    "size",
]

_LONGEST_LABEL = 32


def print_head(answer: JobAnswer[Any], more: str = "") -> None:
    """Prints how many files there are, what was left out, and a warning if they are of different jobs."""
    total = len(answer.ranks) + len(answer.unreadable)
    what = f"{total} rank{'s' * (total != 1)}" if answer.numbered_by else f"{total} file{'s' * (total != 1)}"
    left_out = []
    if answer.num_ignored:
        names = ", ".join(shortened(name) for name in answer.ignored)
        more_names = f" and {rest} more" if (rest := answer.num_ignored - len(answer.ignored)) else ""
        word = "file" if answer.num_ignored == 1 else "files"
        left_out.append(f"{answer.num_ignored} other {word} ignored: {names}{more_names}")
    if answer.num_repeated:
        left_out.append(f"{answer.num_repeated} named twice")
    print_text(what + (f" ({'; '.join(left_out)})" if left_out else "") + more)
    if not answer.is_one_job:
        print_text(answer.notes[0])
    print()


def print_notes(answer: JobAnswer[Any]) -> None:
    """Prints the verification of all files and the notes that the head does not have, followed by an empty line."""
    notes = [*filter(None, [answer.verification]), *answer.notes[0 if answer.is_one_job else 1 :]]
    for note in notes:
        print_text(note)
    if notes:
        print()


def print_spread(spreads: Mapping[str, Spread | None], heading: str = "spread") -> None:
    """Prints a table with the smallest, the middle and the largest of each figure, followed by an empty line."""
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
    print_table((heading, "min (whose)", "median", "max (whose)"), rows)
    print()


def histories(ranks: Sequence[Rank[Any]]) -> list[str]:
    """Returns the cells of a column for histories, or an empty list if all are complete."""
    kinds = [rank.history.kind for rank in ranks]
    return kinds if set(kinds) != {"complete"} else []


def live_peak(rank: Rank[Any]) -> str:
    """Returns the live peak of a rank for a cell. A file without a history does not tell it."""
    return "unknown" if rank.history.kind == "state" else format_bytes(rank.peak_live)


def print_worst(text: str, notes: Sequence[str]) -> None:
    """Prints what is known of the worst rank, and the notes about its file that the text does not have."""
    print_text(text)
    for note in notes:
        if note not in text:
            print_text(note)


def rank_column(answer: JobAnswer[Any]) -> str:
    """Returns the header of the first column."""
    return "rank" if answer.numbered_by else "file"


def size(nbytes: int | None) -> str:
    """Returns a size for a cell; ``"unknown"`` if it is not known."""
    return "unknown" if nbytes is None else format_bytes(nbytes)


def shortened(label: str) -> str:
    """Returns a label for a table. Names of files may be very long; their ends tell more than their middles."""
    text = visible(label)
    if len(text) <= _LONGEST_LABEL:
        return text
    half = (_LONGEST_LABEL - 3) // 2
    return f"{text[:half]}...{text[-half:]}"
