"""The tables of ``memlake top``: one line per pool, and one per stream if they are asked for."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from memlake.tables.page import Page
from memlake.units import format_bytes
from memlake.wording import counted, shorten_middle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.publishing import PoolLine, PoolView

__all__ = ["Histories", "page_of", "sparkline"]

NUM_SAMPLES = 16
"""The width of a sparkline."""

_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_BARS = ".:-=+*#@"
_LONGEST_PROGRAM = 28
_LONGEST_POLICY = 20


class Histories:
    """What each pool held in the last samples."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], deque[int]] = {}

    def add(self, view: PoolView) -> None:
        """Adds a sample of all pools, and forgets pools that are gone."""
        new = {}
        for process in view.processes:
            for pool in process.pools or ():
                key = (process.process, pool.pool)
                new[key] = self._held.get(key, deque(maxlen=NUM_SAMPLES))
                new[key].append(pool.held)
        self._held = new

    def of(self, line: PoolLine) -> Sequence[int]:
        """Returns the samples of a pool, the oldest first."""
        return self._held.get((line.process.process, line.pool.pool), ())


def sparkline(values: Sequence[int], *, plain: bool = False) -> str:
    """Draws values as bars of eight heights, the largest value as the highest.

    Args:
        values: the values; 0 is the lowest bar.
        plain: whether the terminal has only ASCII.
    """
    bars = _PLAIN_BARS if plain else _BARS
    most = max(values, default=0)
    return "".join(bars[value * (len(bars) - 1) // most if most else 0] for value in values)


def page_of(view: PoolView, *, streams: bool = False, histories: Histories | None = None, plain: bool = False) -> Page:
    """Returns how many processes publish, and one line per pool.

    Args:
        view: the pools.
        streams: whether to add a line for each stream of a pool.
        histories: adds a column with what each pool held before.
        plain: whether the terminal has only ASCII.
    """
    page = Page()
    lines = view.lines
    held, live = sum(line.pool.held for line in lines), sum(line.pool.live for line in lines)
    page.line(
        f"{counted(len(view.processes), 'process', 'processes')}, {counted(len(lines), 'pool')}: "
        f"held {format_bytes(held)}, live {format_bytes(live)}"
    )
    if view.silent:
        numbers = ", ".join(str(one.process) for one in view.silent)
        page.line(f"no answer from {numbers}: stopped, or very busy")
    if not view.processes:
        page.line("No process publishes its pools. Start one with MEMLAKE_PUBLISH=1, or call memlake.publish() in it.")
    page.line()
    headers = ["process", "program", "policy", "GPU"]
    headers += ["held over time"] if histories is not None else []
    left = len(headers)
    headers += ["held", "live", "free", "pending", "retries", "moves", "driver ms"]
    rows = []
    for line in lines:
        pool = line.pool
        past = [] if histories is None else [sparkline(histories.of(line), plain=plain)]
        figures = (pool.held, pool.live, pool.free, pool.pending)
        moves = "-" if pool.moves is None else str(pool.moves)
        rows.append(
            [
                str(line.process.process),
                shorten_middle(line.process.program, _LONGEST_PROGRAM),
                shorten_middle(pool.policy + (" (torch)" if pool.serves else ""), _LONGEST_POLICY),
                ",".join(map(str, pool.devices)),
                *past,
                *map(format_bytes, figures),
                str(pool.retries),
                moves,
                f"{pool.driver_ms:.1f}",
            ]
        )
        for stream in pool.streams if streams else ():
            sizes = ("", *map(format_bytes, (stream.live, stream.free, stream.pending)))
            name = "  default stream" if stream.stream == 0 else f"  stream {stream.stream:#x}"
            rows.append(["", name, "", "", *([""] if past else []), *sizes, "", "", ""])
    page.table(headers, rows, left=left)
    return page
