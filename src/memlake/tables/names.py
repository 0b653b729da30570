"""Names from files in tables: shortened, so that no name pushes figures off a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memlake.wording import shorten_end, shorten_middle

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["shorten_site", "shorten_to_fit"]

_WIDTH = 78
"""What fits on a terminal of 80 columns: rich draws an empty column on both sides of a table."""
_SHORTEST, _LONGEST = 24, 60
_SITE = re.compile(r"(.+?)(:\d+(?:[>?]\d+)?) (.+)")


def shorten_site(text: str, longest: int) -> str:
    """Returns a call site of at most this length. Its line stays; the names of the file and the function are cut."""
    match = _SITE.fullmatch(text)
    if len(text) <= longest or match is None:
        return shorten_middle(text, longest)
    file, line, function = match.groups()
    rest = longest - len(line) - 1
    of_function = min(len(function), max(longest // 3, rest - len(file)))
    return f"{shorten_end(file, rest - of_function)}{line} {shorten_end(function, of_function)}"


def shorten_to_fit(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Shortens the names in the first column, so that the table fits on 80 columns if the other columns allow it."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    longest = min(max(_WIDTH - sum(widths[1:]) - 2 * (len(widths) - 1), _SHORTEST), _LONGEST)
    return [(shorten_site(row[0], longest), *row[1:]) for row in rows]
