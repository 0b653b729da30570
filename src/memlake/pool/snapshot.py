"""Everything a pool knows at one instant: its segments and their blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from memlake.errors import ConfigError

__all__ = ["BlockInfo", "PoolSnapshot", "SegmentInfo"]

_STATES = ("free", "live", "pending", "unmapped", "lent", "dead", "claimed")  # the order of BlockState in the core
_COLUMNS = (
    *("segment", "segment_size", "page", "address", "nbytes", "requested"),
    *("stream", "state", "is_small", "id", "on_host"),
)
# PyTorch's words for the states in which a block's bytes count; the others are no blocks there.
_TORCH_STATES = {
    "free": "inactive",
    "claimed": "inactive",
    "live": "active_allocated",
    "pending": "active_awaiting_free",
}


@dataclass(frozen=True)
class BlockInfo:
    """One block.

    Attributes:
        address, nbytes: where it lies.
        requested: what the caller asked for; 0 if nobody has it.
        state: ``"live"``, ``"pending"``, ``"free"``; ``"unmapped"``: addresses without memory; ``"lent"``: in use
            through a buffer elsewhere, where its bytes count; ``"dead"``: addresses that wait to be mapped or unmapped;
            ``"claimed"``: free memory that a request will take for which more is being made.
        stream: handle of the stream that it is for.
        on_host: how many of its bytes were spilled to the host.
    """

    address: int
    nbytes: int
    requested: int
    state: str
    stream: int
    on_host: int = 0


@dataclass(frozen=True)
class SegmentInfo:
    """One segment: a contiguous range of addresses, tiled by its blocks.

    Attributes:
        address, nbytes: the range.
        page: the size of its pages if it is expandable, else 0.
        is_small: True if it serves small requests.
        blocks: in order of their addresses.
    """

    address: int
    nbytes: int
    page: int
    is_small: bool
    blocks: tuple[BlockInfo, ...]

    @property
    def is_expandable(self) -> bool:
        """True if it gets and loses memory page by page."""
        return self.page != 0

    @property
    def held(self) -> int:
        """Bytes of memory behind its addresses."""
        return sum(block.nbytes for block in self.blocks if block.state in _TORCH_STATES)

    @property
    def held_on_host(self) -> int:
        """Of these, the bytes that were spilled to the host."""
        return sum(block.on_host for block in self.blocks)


class PoolSnapshot:
    """Segments and blocks of a pool at one instant. Taking one copies a table; the objects are made when asked for."""

    def __init__(self, rows: bytes) -> None:
        """From the core's table; use `Pool.snapshot`."""
        self._table = np.frombuffer(rows, np.uint64).reshape(-1, len(_COLUMNS))

    @property
    def table(self) -> dict[str, np.ndarray[Any, np.dtype[np.uint64]]]:
        """One array per column, one entry per block, in order of addresses."""
        return {name: self._table[:, index] for index, name in enumerate(_COLUMNS)}

    @cached_property
    def segments(self) -> tuple[SegmentInfo, ...]:
        """The segments, in order of their addresses."""
        found: dict[int, tuple[list[int], list[BlockInfo]]] = {}
        for row in self._table.tolist():
            segment, _, _, address, nbytes, requested, stream, state, _, _, on_host = row
            block = BlockInfo(address, nbytes, requested, _STATES[state], stream, on_host)
            found.setdefault(segment, (row, []))[1].append(block)
        return tuple(
            SegmentInfo(address, row[1], row[2], bool(row[8]), tuple(blocks))
            for address, (row, blocks) in found.items()
        )

    def total(self, state: str) -> int:
        """Bytes of the blocks in one state.

        Raises:
            ConfigError: if there is no such state; see `BlockInfo`.
        """
        if state not in _STATES:
            raise ConfigError(f"no block has the state {state!r}; there are {', '.join(_STATES)}")
        column = self._table[:, _COLUMNS.index("state")] == _STATES.index(state)
        return int(self._table[column, _COLUMNS.index("nbytes")].sum())

    def to_torch(self) -> dict[str, Any]:
        """In the shape of ``torch.cuda.memory._snapshot()``, so that PyTorch's viewer draws it."""
        segments = []
        for segment in self.segments:
            blocks = [
                {
                    "address": block.address,
                    "size": block.nbytes,
                    "requested_size": block.requested,
                    "state": _TORCH_STATES[block.state],
                    "frames": [],
                }
                for block in segment.blocks
                if block.state in _TORCH_STATES
            ]
            segments.append(
                {
                    "device": 0,
                    "address": segment.address,
                    "total_size": segment.held,
                    "stream": segment.blocks[0].stream,
                    "segment_type": "small" if segment.is_small else "large",
                    "segment_pool_id": (0, 0),
                    "is_expandable": segment.is_expandable,
                    "allocated_size": sum(b["size"] for b in blocks if b["state"] == "active_allocated"),  # type: ignore[misc]
                    "active_size": sum(b["size"] for b in blocks if b["state"] != "inactive"),  # type: ignore[misc]
                    "requested_size": sum(b["requested_size"] for b in blocks),  # type: ignore[misc]
                    "frames": [],
                    "blocks": blocks,
                }
            )
        return {"segments": segments, "device_traces": [[]]}

    def __len__(self) -> int:
        """How many blocks there are."""
        return len(self._table)

    def __repr__(self) -> str:
        segments = len(np.unique(self._table[:, _COLUMNS.index("segment")]))
        return f"PoolSnapshot({segments} segments, {len(self)} blocks)"
