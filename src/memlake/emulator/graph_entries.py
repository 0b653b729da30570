"""The entries of the ledger about graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlake.emulator.driver_ledger import Origin


@dataclass(frozen=True)
class GraphEntry:
    """A graph of the program; child graphs are not listed. `execs` is the number of its executable graphs."""

    handle: int
    nodes: int
    is_capturing: bool
    execs: int
    made_by: Origin


@dataclass(frozen=True)
class GraphExecEntry:
    """An executable graph; `graph` is the graph that it was made from, which may be gone."""

    handle: int
    graph: int
    flags: int
    nodes: int
    launches: int
    made_by: Origin


@dataclass(frozen=True)
class GraphMemoryEntry:
    """The memory of a device's graphs. `held` and `used` are CUDA's RESERVED and USED; `allocations` are those that a
    launch made and that are not freed."""

    device: int
    held: int
    used: int
    allocations: int


@dataclass(frozen=True)
class UserObjectEntry:
    """An object of the program that graphs keep alive."""

    handle: int
    references: int
    made_by: Origin
