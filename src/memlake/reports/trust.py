"""How far the figures of a report can be trusted: the verification, and what a trace lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.reports.terminal import print_text, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.analysis import Reproduction

__all__ = ["print_trust"]


def print_trust(reproduction: Reproduction | None, notes: Sequence[str]) -> None:
    """Prints the verification in one line and each note as a paragraph, followed by an empty line."""
    if reproduction is not None:
        print(visible(reproduction.sentence))
    for text in notes:
        print_text(text)
    if reproduction is not None or notes:
        print()
