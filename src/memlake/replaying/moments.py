"""Moments of a replay: the blocks of the pool after chosen rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["COLUMNS", "STATES", "Moments"]

STATES = ("free", "live", "pending", "unmapped", "lent", "dead", "claimed")
"""The states of blocks, in the order of the core's numbers."""
COLUMNS = (
    *("segment", "segment_size", "page", "address", "nbytes"),
    *("requested", "stream", "state", "is_small", "id"),
)
"""The columns of the table of blocks."""


@dataclass(frozen=True, eq=False)
class Moments:
    """The blocks of a pool after chosen rows of a replay. A replay that ran out of memory has no moments after that.

    Attributes:
        rows: the row after which each moment is, ascending.
        starts: where the blocks of each moment begin in `table`, and the end of the last one.
        table: one line per block, with the columns of `COLUMNS`; by address within a moment. The id of a block
            in use counts the allocations that got memory, from 0. Addresses without memory are left out.
    """

    rows: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    table: npt.NDArray[np.uint64]

    @classmethod
    def from_core(cls, rows: bytes, starts: bytes, blocks: bytes) -> Moments:
        """Makes the object from the core's columns."""
        table = np.frombuffer(blocks, np.uint64).reshape(-1, len(COLUMNS))
        begins = np.frombuffer(starts, np.uint64).astype(np.int64)
        return cls(np.frombuffer(rows, np.uint64), np.append(begins, len(table)), table)

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> npt.NDArray[np.uint64]:
        """Returns one column of the table, for the blocks of all moments."""
        column: npt.NDArray[np.uint64] = self.table[:, COLUMNS.index(name)]
        return column

    @property
    def moment(self) -> npt.NDArray[np.int64]:
        """The moment of each line of the table, by its place in `rows`."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))
