"""Wording: the plural, lists and shortened texts in sentences and tables. `memlake.units` formats sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["counted", "listed", "plural", "quoted", "shorten_end", "shorten_middle"]


def plural(number: int, one: str, many: str = "") -> str:
    """Returns a word in the form for a number: ``"row"`` for 1, else ``"rows"``, or `many` if it is given."""
    return one if number == 1 else many or f"{one}s"


def counted(number: int, one: str, many: str = "") -> str:
    """Returns a number with its noun: ``"1 file"``, ``"2 files"``."""
    return f"{number} {plural(number, one, many)}"


def listed(words: Sequence[str]) -> str:
    """Joins words: ``"a"``, ``"a and b"``, ``"a, b and c"``."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def shorten_end(text: str, longest: int) -> str:
    """Returns a text of at most this length, with "..." in place of its end if it is longer."""
    return text if len(text) <= longest else f"{text[: max(longest - 3, 1)]}..."


def shorten_middle(text: str, longest: int) -> str:
    """Returns a text of at most this length, with "..." in place of its middle if it is longer."""
    if len(text) <= longest:
        return text
    head = (longest - 3) // 2
    return f"{text[:head]}...{text[len(text) - (longest - 3 - head) :]}"


def quoted(value: object) -> str:
    """Returns a value for a message, as Python writes it: at most 60 characters, and no raw bytes."""
    # Slicing comes first: the repr of a value from a hostile file may be as large as the file.
    return shorten_end(repr(value[:60] if isinstance(value, (str, bytes)) else value), 60)
