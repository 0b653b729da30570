"""What commands write: data to stdout as tables or JSON, talk to stderr. `rich` draws the tables if it is installed."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Progress", "print_json", "print_table", "print_text", "visible"]

_WIDTH = 100


def print_json(value: dict[str, Any]) -> None:
    """Prints JSON, indented, as ASCII."""
    print(json.dumps(value, indent=2, allow_nan=False))


def print_text(text: str) -> None:
    """Prints a paragraph, wrapped to the width of the terminal, to 100 columns elsewhere."""
    width = min(shutil.get_terminal_size((_WIDTH, 24)).columns, 120) if sys.stdout.isatty() else _WIDTH
    print(textwrap.fill(visible(text), width=max(width, 40), break_long_words=False, break_on_hyphens=False))


def visible(text: str) -> str:
    """The text without characters that a terminal would obey: names in traces come from anywhere."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Prints a table. The first `left` columns are text, the others numbers, which stand at the right."""
    shown = [[visible(cell) for cell in row] for row in rows]
    if sys.stdout.isatty() and _print_rich_table(headers, shown, left):
        return
    widths = [max(map(len, column)) for column in zip(headers, *shown, strict=True)]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()

    print(line(headers))
    print("  ".join("-" * width for width in widths))
    for row in shown:
        print(line(row))


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
        # Text may be broken into lines where the terminal is narrow, numbers may not.
        table.add_column(header, justify="left" if index < left else "right", no_wrap=index >= left)
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell.split(" ")[0], "")) for cell in row))
    Console().print(table)
    return True


_STYLES = {"fits": "green", "ok": "green", "out": "red", "broken": "red", "note": "yellow"}


class Progress:
    """A line on a terminal's stderr that says how far a command has come; silent anywhere else."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_shown = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        self._draw(f"{self._what} ...")
        return self

    def __call__(self, done: int, total: int) -> None:
        """Shows that so many are done."""
        bar = "#" * (20 * done // total)
        self._draw(f"{self._what} [{bar:<20}] {done}/{total}")

    def __exit__(self, *_: object) -> None:
        self._draw("")

    def _draw(self, text: str) -> None:
        if self._is_shown:
            # Return to the line's beginning and erase it; the next text, or what follows, takes its place.
            print(f"\r\x1b[K{visible(text)}", end="", file=sys.stderr, flush=True)
