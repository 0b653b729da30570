"""What commands write beside their reports: JSON to stdout, progress to stderr."""

from __future__ import annotations

import json
import sys
from typing import Any

from memlake.reports.terminal import visible

__all__ = ["Progress", "print_json"]


def print_json(value: dict[str, Any]) -> None:
    """Prints JSON, indented, as ASCII."""
    print(json.dumps(value, indent=2, allow_nan=False))


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
