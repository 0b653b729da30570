"""The view of ``memlake top``: the published pools, filtered and sorted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memlake.printable import Printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlake.publishing.reader import Published, PublishedPool

__all__ = ["SORTS", "PoolLine", "PoolView"]


@dataclass(frozen=True)
class PoolLine:
    """One pool of one process."""

    process: Published
    pool: PublishedPool

    def matches(self, text: str) -> bool:
        """Whether a filter with this text shows the pool.

        Of the name of the device only the beginnings of words count: every emulated device is a "memlake emulated GPU",
        and "lake" means the policy.
        """
        one, pool = self.process, self.pool
        plain = f"{one.process} {one.program} {pool.policy} {pool.serves}".lower()
        return text.lower() in plain or f" {text.lower()}" in f" {pool.device.lower()}"


SORTS: dict[str, Callable[[PoolLine], float]] = {
    "held": lambda line: -line.pool.held,
    "live": lambda line: -line.pool.live,
    "free": lambda line: -line.pool.free,
    "pending": lambda line: -line.pool.pending,
    "retries": lambda line: -line.pool.retries,
    "moves": lambda line: -(line.pool.moves or 0),
    "driver": lambda line: -line.pool.driver_ms,
    "process": lambda line: line.process.process,
}
"""What pools can be sorted by: figures with the largest first, processes with the lowest number first."""


@dataclass(frozen=True)
class PoolView(Printable, table="top"):
    """What ``memlake top`` shows at one moment.

    Attributes:
        processes: the processes that publish.
        sort: a key of `SORTS`.
        is_reversed: whether the order is turned round.
        filter: shows only pools whose process, program or policy contains this text, or whose device has a word that
            begins with it; empty: all.
    """

    processes: tuple[Published, ...]
    sort: str = "held"
    is_reversed: bool = False
    filter: str = ""

    @property
    def lines(self) -> list[PoolLine]:
        """The pools to show, in order."""
        every = [PoolLine(process, pool) for process in self.processes for pool in process.pools or ()]
        wanted = [line for line in every if line.matches(self.filter)]
        # Equal figures keep the order of processes, so that lines do not jump.
        return sorted(wanted, key=SORTS[self.sort], reverse=self.is_reversed)

    @property
    def silent(self) -> tuple[Published, ...]:
        """The processes that did not answer in time."""
        return tuple(one for one in self.processes if one.pools is None)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object that ``memlake top --json`` prints, as a dict."""
        lines = self.lines
        return {
            "processes": len(self.processes),
            "silent": [one.process for one in self.silent],
            "held": sum(line.pool.held for line in lines),
            "live": sum(line.pool.live for line in lines),
            "pools": [
                {
                    "process": line.process.process,
                    "program": line.process.program,
                    "version": line.process.version,
                }
                | vars(line.pool)
                | {"devices": list(line.pool.devices), "streams": [vars(stream) for stream in line.pool.streams]}
                for line in lines
            ],
        }
