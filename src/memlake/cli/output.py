"""The output of commands in addition to reports: JSON to stdout, progress to stderr."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from memlake.reports.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlake.jobs import JobAnswer

__all__ = ["EXIT_CODES", "Progress", "code_of_job", "print_json"]

EXIT_CODES = {"ok": 0, "oom": 1, "unknown": 3}
"""The exit code of each outcome. 2 is for bad input; 3 says that the file cannot decide the question."""


def print_json(value: dict[str, Any]) -> None:
    """Prints JSON, indented, as ASCII."""
    print(json.dumps(value, indent=2, allow_nan=False))


def code_of_job(answer: JobAnswer[Any], code: int) -> int:
    """Returns the exit code of an answer for several files, and says on stderr which files could not be read.

    A file that could not be read makes it 2, whatever the others say: the answer may be another with it.
    """
    for bad in answer.unreadable:
        print(f"memlake: error: {visible(bad.reason)}", file=sys.stderr)
    return 2 if answer.unreadable else code


class Progress:
    """A progress line on stderr. It is shown only on a terminal."""

    def __init__(self, what: str, shown: Callable[[int], str] = str) -> None:
        """`shown` writes the numbers of parts as text."""
        self._what = what
        self._shown = shown
        self._is_shown = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        self._draw(f"{self._what} ...")
        return self

    def __call__(self, done: int, total: int) -> None:
        """Shows how many parts are done."""
        bar = "#" * (20 * done // total)
        self._draw(f"{self._what} [{bar:<20}] {self._shown(done)} of {self._shown(total)}")

    def __exit__(self, *_: object) -> None:
        self._draw("")

    def _draw(self, text: str) -> None:
        if self._is_shown:
            # Moves to the start of the line and erases it, so that the next text replaces this one.
            print(f"\r\x1b[K{visible(text)}", end="", file=sys.stderr, flush=True)
