"""``memlake top``: the pools of running processes."""

from __future__ import annotations

import json
import math
import sys
import time
from typing import TYPE_CHECKING

from memlake.cli.command import add_command
from memlake.cli.output import print_json
from memlake.cli.replay_arguments import add_json
from memlake.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from memlake.cli.command import Commands
    from memlake.cli.live_screen import LiveScreen
    from memlake.publishing import PoolView, Reader

__all__ = ["add_to"]

_SORTS = ("held", "live", "free", "pending", "retries", "moves", "driver", "process")

_DESCRIPTION = """\
Shows the pools of your running processes: what they hold, what is live, free and pending, by pool and by stream, how
often they retried a request and moved memory, and the modelled time of their driver calls. A process shows its pools if
it was started with MEMLAKE_PUBLISH=1, or if it calls memlake.publish(). Only processes of the same user are seen.
"""

_EXAMPLE = """\
keys: q ends it, s sorts by the next column, r turns the order round, / filters (Enter takes the text, Escape drops it),
t shows streams, the space bar stops and goes on

examples:
  memlake top
  memlake top --sort driver --filter train.py
  memlake top --once --json

exit code: 0, 1 with --once if no process publishes its pools, 2 for bad input
"""


def add_to(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        "top",
        _run,
        help="what do the pools of running processes hold?",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
    )
    parser.add_argument("--once", action="store_true", help="print one table and end; also where stdout is no terminal")
    parser.add_argument("--sort", choices=_SORTS, default="held", help="what to sort by (default: %(default)s)")
    parser.add_argument("--reverse", action="store_true", help="turn the order round")
    parser.add_argument(
        "--filter",
        metavar="TEXT",
        default="",
        help="only pools whose process, program or policy contains this text, or whose device has a word that begins "
        "with it",
    )
    parser.add_argument("--streams", action="store_true", help="add a line for each stream")
    parser.add_argument(
        "--interval", metavar="SECONDS", default="1", help="the time between two pictures (default: %(default)s)"
    )
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    from memlake.cli.live_screen import LiveScreen, is_live
    from memlake.publishing import PoolView, Reader

    seconds = _seconds(arguments.interval)
    with Reader() as reader:
        if arguments.json and not arguments.once:
            return _print_lines(arguments, reader, seconds)
        if arguments.once or not is_live():
            view = PoolView(tuple(reader.read()), arguments.sort, arguments.reverse, arguments.filter)
            if arguments.json:
                print_json(view.to_json())
            else:
                view.print(streams=arguments.streams)
            return 0 if view.processes else 1
        reader.read()  # a folder that must not be used is reported before the screen changes
        with LiveScreen() as screen:
            _Top(arguments, reader, screen, seconds).run()
    return 0


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.05 <= seconds <= 3600:
        raise ConfigError(f"--interval must be between 0.05 and 3600 seconds, got {text[:60]!r}; hint: --interval 1")
    return seconds


def _print_lines(arguments: argparse.Namespace, reader: Reader, seconds: float) -> int:
    """Prints one JSON object per line, until Ctrl-C."""
    from memlake.publishing import PoolView

    try:
        while True:
            view = PoolView(tuple(reader.read()), arguments.sort, arguments.reverse, arguments.filter)
            print(json.dumps(view.to_json(), allow_nan=False), flush=True)
            time.sleep(seconds)
    except KeyboardInterrupt:
        return 0


class _Top:
    """The live view: what is chosen, and what the keys change."""

    def __init__(self, arguments: argparse.Namespace, reader: Reader, screen: LiveScreen, seconds: float) -> None:
        from memlake.tables.top import Histories

        self._reader = reader
        self._screen = screen
        self._seconds = seconds
        self._sort: str = arguments.sort
        self._is_reversed: bool = arguments.reverse
        self._filter: str = arguments.filter
        self._streams: bool = arguments.streams
        self._typed: str | None = None  # the filter that is being typed
        self._is_paused = False
        self._histories = Histories()
        self._plain = "utf" not in (sys.stdout.encoding or "").lower()

    def run(self) -> None:
        """Shows pools until a key or Ctrl-C ends it."""
        from memlake.publishing import PoolView

        processes = tuple(self._reader.read())
        due = time.monotonic()
        try:
            while True:
                if time.monotonic() >= due and not self._is_paused:
                    processes = tuple(self._reader.read())
                    self._histories.add(PoolView(processes))
                    due = time.monotonic() + self._seconds
                self._draw(PoolView(processes, self._sort, self._is_reversed, self._filter))
                wait = self._seconds if self._is_paused else max(due - time.monotonic(), 0)
                for key in self._screen.keys(wait):
                    if not self._press(key):
                        return
        except (KeyboardInterrupt, EOFError):
            return

    def _draw(self, view: PoolView) -> None:
        from memlake.tables.top import page_of

        page = page_of(view, streams=self._streams, histories=self._histories, plain=self._plain)
        order = f"by {self._sort}{' reversed' * self._is_reversed}"
        if self._typed is not None:
            state = f"filter: {self._typed}_   Enter: take   Escape: drop"
        else:
            chosen = f", filter: {self._filter}" if self._filter else ""
            paused = ", stopped" if self._is_paused else ""
            state = f"{order}{chosen}{paused}   q: end  s: sort  r: reverse  /: filter  t: streams  space: stop"
        self._screen.draw([f"memlake top  {state}", *page.to_text().splitlines()])

    def _press(self, key: str) -> bool:
        """Does what a key means. Returns False if it ends the view."""
        if self._typed is not None:
            self._type(key)
            return True
        if key == "q":
            return False
        if key == "s":
            self._sort = _SORTS[(_SORTS.index(self._sort) + 1) % len(_SORTS)]
        elif key == "r":
            self._is_reversed = not self._is_reversed
        elif key == "t":
            self._streams = not self._streams
        elif key == " ":
            self._is_paused = not self._is_paused
        elif key == "/":
            self._typed = self._filter
        return True

    def _type(self, key: str) -> None:
        assert self._typed is not None
        if key in "\r\n":
            self._filter, self._typed = self._typed, None
        elif key == "\x1b":
            self._typed = None
        elif key in "\x7f\b":
            self._typed = self._typed[:-1]
        elif key.isprintable():
            self._typed += key
