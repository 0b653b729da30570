"""How far the figures of a table can be trusted: the verification, and what a trace lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.analysis import Reproduction
    from memlake.tables.page import Page

__all__ = ["add_trust"]


def add_trust(page: Page, reproduction: Reproduction | None, notes: Sequence[str]) -> None:
    """Adds the verification in one line and each note as a paragraph, followed by an empty line."""
    if reproduction is not None:
        page.line(reproduction.sentence)
    for text in notes:
        page.paragraph(text)
    if reproduction is not None or notes:
        page.line()
