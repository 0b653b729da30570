"""The output of commands in addition to reports: JSON to stdout, progress to stderr."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Protocol

from memlake.tables.terminal import visible

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

__all__ = ["EXIT_CODES", "Progress", "give", "print_json"]

EXIT_CODES = {"ok": 0, "oom": 1, "unknown": 3}
"""The exit code of each outcome. 2 is for bad input; 3 says that the file cannot decide the question."""


def print_json(value: dict[str, Any]) -> None:
    """Prints JSON, indented, as ASCII."""
    print(json.dumps(value, indent=2, allow_nan=False))


class _Result(Protocol):
    """A result that a command prints."""

    def print(self, **choices: Any) -> None: ...
    def to_json(self) -> dict[str, Any]: ...


def give(found: _Result, arguments: argparse.Namespace, code: int = 0, *, is_job: bool = False, **choices: Any) -> int:
    """Prints a result as its report, or as JSON with the names of its files, and returns the exit code.

    Args:
        found: the result.
        arguments: has `json`, and `trace` or, for a job, `traces`.
        code: the exit code that the result has by itself.
        is_job: whether it is an answer for the files of a job.
        choices: as for `Printable.print`.
    """
    if arguments.json:
        origin = {"traces": arguments.traces} if is_job else {"trace": arguments.trace}
        print_json(origin | found.to_json())
    else:
        found.print(**choices)
    return _code_of_job(found, code) if is_job else code


def _code_of_job(answer: Any, code: int) -> int:
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
