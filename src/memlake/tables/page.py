"""Pages: a result as lines, paragraphs and tables, which can be printed, or returned as text or HTML."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from memlake.tables.terminal import plain_table, print_table, print_text, visible, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Page"]


@dataclass(frozen=True)
class _Line:
    """A line that is not wrapped; an empty one separates parts."""

    text: str


@dataclass(frozen=True)
class _Paragraph:
    """A text that is wrapped."""

    text: str


@dataclass(frozen=True)
class _Table:
    """A table. The first `left` columns are text; the others are numbers."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int


class Page:
    """The parts of a page in order. Texts may come from untrusted files: control characters are replaced."""

    def __init__(self) -> None:
        self._parts: list[_Line | _Paragraph | _Table] = []

    def line(self, text: str = "") -> None:
        """Adds a line that is not wrapped."""
        self._parts.append(_Line(visible(text)))

    def paragraph(self, text: str) -> None:
        """Adds a text that is wrapped."""
        self._parts.append(_Paragraph(visible(text)))

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> None:
        """Adds a table. The first `left` columns are text; the others are numbers and right-aligned."""
        shown = tuple(tuple(map(visible, row)) for row in rows)
        self._parts.append(_Table(tuple(map(visible, headers)), shown, left))

    def add(self, other: Page) -> None:
        """Adds all parts of another page."""
        self._parts += other._parts

    def print(self) -> None:
        """Prints the page to stdout, in the width of the terminal if it is one."""
        for part in self._parts:
            if isinstance(part, _Table):
                print_table(part.headers, part.rows, left=part.left)
            elif isinstance(part, _Paragraph):
                print_text(part.text)
            else:
                print(part.text)

    def to_text(self) -> str:
        """Returns what `print` prints where stdout is no terminal, without the last line break."""
        return "\n".join(_text(part) for part in self._parts)

    def to_html(self) -> str:
        """Returns the page as HTML. Every text is escaped, so nothing in it is an element or a script."""
        parts = []
        for kind, group in groupby(self._parts, type):
            if kind is _Line:
                # Lines are aligned with each other by blanks.
                text = "\n".join(part.text for part in group if isinstance(part, _Line)).strip("\n")
                parts += [f"<pre>{escape(text)}</pre>"] if text else []
            else:
                parts += [_html(part) for part in group]
        return f'<div class="memlake">{"".join(parts)}</div>'


def _text(part: _Line | _Paragraph | _Table) -> str:
    if isinstance(part, _Table):
        return plain_table(part.headers, part.rows, part.left)
    return wrapped(part.text) if isinstance(part, _Paragraph) else part.text


def _html(part: _Line | _Paragraph | _Table) -> str:
    if not isinstance(part, _Table):
        return f"<p>{escape(part.text)}</p>"
    head = "".join(_cell("th", header, index < part.left) for index, header in enumerate(part.headers))
    body = "".join(
        f"<tr>{''.join(_cell('td', cell, index < part.left) for index, cell in enumerate(row))}</tr>"
        for row in part.rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(element: str, text: str, is_left: bool) -> str:
    return f'<{element} style="text-align: {"left" if is_left else "right"}">{escape(text)}</{element}>'
