"""Tables and paragraphs as text and on stdout. `rich` draws the tables on a terminal if it is installed."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["plain_table", "print_table", "print_text", "visible", "wrapped"]

_WIDTH = 100


def print_text(text: str) -> None:
    """Prints a paragraph, wrapped to the width of the terminal, to 100 columns elsewhere."""
    width = min(shutil.get_terminal_size((_WIDTH, 24)).columns, 120) if sys.stdout.isatty() else _WIDTH
    print(wrapped(text, max(width, 40)))


def wrapped(text: str, width: int = _WIDTH) -> str:
    """Returns a paragraph in lines of at most this width, unless a word is longer."""
    return textwrap.fill(visible(text), width=width, break_long_words=False, break_on_hyphens=False)


def visible(text: str) -> str:
    """Replaces control characters, which a terminal would execute: names in traces are not trusted."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Prints a table. The first `left` columns are text; the others are numbers and right-aligned.

    On a terminal, columns of numbers that do not fit are left out, the last ones first. The text is always there.
    """
    shown = [[visible(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        kept = _num_fitting(headers, shown, left, shutil.get_terminal_size((_WIDTH, 24)).columns)
        omitted = headers[kept:]
        headers, shown = headers[:kept], [row[:kept] for row in shown]
        if not _print_rich_table(headers, shown, left):
            print(plain_table(headers, shown, left))
        if omitted:
            print_text(f"The terminal is too narrow for: {', '.join(omitted)}.")
        return
    print(plain_table(headers, shown, left))


def _num_fitting(headers: Sequence[str], rows: Sequence[Sequence[str]], left: int, width: int) -> int:
    """Returns how many columns fit on a terminal of this width, at least the `left` first ones."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    kept = len(widths)
    # Two columns are two blanks apart.
    while kept > left and sum(widths[:kept]) + 2 * (kept - 1) > width:
        kept -= 1
    return kept


def plain_table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Returns a table as lines. The first `left` columns are text; the others are numbers and right-aligned."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()

    return "\n".join([line(headers), "  ".join("-" * width for width in widths), *map(line, rows)])


def _print_rich_table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> bool:
    """False if rich is not installed."""
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for index, header in enumerate(headers):
        # On a terminal that is too narrow even for the text, the text is wrapped; numbers are not.
        table.add_column(
            header, justify="left" if index < left else "right", no_wrap=index >= left, min_width=3, overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell.split(" ")[0], "")) for cell in row))
    Console().print(table)
    return True


_STYLES = {"fits": "green", "ok": "green", "out": "red", "broken": "red", "note": "yellow"}
