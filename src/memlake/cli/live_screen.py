"""A terminal that shows a changing picture and reads single keys."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LiveScreen", "is_live"]

# The terminal's second screen without a cursor, and back: what was on the terminal before is there again afterwards.
_ENTER = "\x1b[?1049h\x1b[?25l"
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME, _TO_LINE_END, _TO_SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"


def is_live() -> bool:
    """Whether stdin and stdout are a terminal that can show a changing picture."""
    return sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty() and os.environ.get("TERM") != "dumb"


class LiveScreen:
    """The screen of a terminal, until the end of a block. A context manager; it restores the terminal in every case."""

    def __enter__(self) -> LiveScreen:
        self._input = sys.stdin.fileno()
        self._before: list[Any] = termios.tcgetattr(self._input)
        self._handler = signal.signal(signal.SIGTERM, _end)
        tty.setcbreak(self._input)
        sys.stdout.write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)
        signal.signal(signal.SIGTERM, self._handler)

    def draw(self, lines: Sequence[str]) -> None:
        """Shows lines, as many and as long as the screen has room for."""
        # Asked each time, because the window may have another size now; COLUMNS does not follow it.
        width, height = os.get_terminal_size(sys.stdout.fileno())
        shown = [line[:width] + _TO_LINE_END for line in lines[:height]]
        sys.stdout.write(_HOME + "\r\n".join(shown) + _TO_SCREEN_END)
        sys.stdout.flush()

    def keys(self, seconds: float) -> str:
        """Returns the keys that were pressed, after so many seconds at most; empty if there was none."""
        if not select.select([self._input], [], [], seconds)[0]:
            return ""
        pressed = os.read(self._input, 256).decode(errors="replace")
        if not pressed:
            raise EOFError  # the terminal is gone
        # A key such as an arrow sends an escape sequence, which means nothing here.
        return "" if pressed.startswith("\x1b") and len(pressed) > 1 else pressed


def _end(number: int, _: object) -> NoReturn:
    # As an exception, so that the terminal is restored.
    raise SystemExit(128 + number)
