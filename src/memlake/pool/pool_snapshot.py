"""Pool snapshots: the segments and blocks of a pool at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.device.piece import Piece
from memlake.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.device.device import Device

__all__ = ["BlockInfo", "IdleRange", "PoolSnapshot", "SegmentInfo"]

_STATES = ("free", "live", "pending", "unmapped", "lent", "dead", "claimed")  # the order of BlockState in the core
_COLUMNS = (
    *("segment", "segment_size", "page", "address", "nbytes", "requested"),
    *("stream", "state", "is_small", "id", "on_host", "graph_pool_first", "graph_pool_second"),
    *("first_piece", "num_pieces"),
)
# PyTorch's names of the states. Blocks in other states have no counterpart in PyTorch.
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
        address, nbytes: the range of the block.
        requested: the requested size; 0 if the block is not in use.
        state: ``"live"``, ``"pending"``, ``"free"``; ``"unmapped"``: addresses without memory; ``"lent"``: in use by
            a buffer in another segment, which counts its bytes; ``"dead"``: addresses that wait to be mapped or
            unmapped; ``"claimed"``: free memory for a request for which the pool is still creating the rest.
        stream: the handle of the stream of the block.
        on_host: how many of its bytes were spilled to the host.
        graph_pool: the `GraphPool.id` of the graph pool whose memory it is; None: it is no memory of graphs.
        pieces: where its bytes are, by offset; empty if it has no memory of its own (``"unmapped"``, ``"lent"``,
            ``"dead"``).
    """

    address: int
    nbytes: int
    requested: int
    state: str
    stream: int
    on_host: int = 0
    graph_pool: tuple[int, int] | None = None
    pieces: tuple[Piece, ...] = ()

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that have memory of the block, each once, by offset. Host memory is on no device."""
        return tuple(dict.fromkeys(piece.device for piece in self.pieces if piece.device is not None))


@dataclass(frozen=True)
class IdleRange:
    """Addresses with memory that no buffer uses, and that the policy keeps until it needs their place.

    Attributes:
        address, nbytes: the range.
        stream: the handle of the stream that used it last.
    """

    address: int
    nbytes: int
    stream: int


@dataclass(frozen=True)
class SegmentInfo:
    """One segment: a contiguous range of addresses, tiled by its blocks.

    Attributes:
        address, nbytes: the range of the segment.
        page: the page size of an expandable segment, else 0.
        is_small: True if the segment serves small requests.
        blocks: the blocks by address.
    """

    address: int
    nbytes: int
    page: int
    is_small: bool
    blocks: tuple[BlockInfo, ...]

    @property
    def is_expandable(self) -> bool:
        """True if memory is mapped to the segment page by page."""
        return self.page != 0

    @property
    def held(self) -> int:
        """The physical memory of the segment in bytes."""
        return sum(block.nbytes for block in self.blocks if block.state in _TORCH_STATES)

    @property
    def graph_pool(self) -> tuple[int, int] | None:
        """The `GraphPool.id` of the graph pool whose memory it is; None: it is no memory of graphs."""
        return self.blocks[0].graph_pool

    @property
    def held_on_host(self) -> int:
        """The part of `held` that was spilled to the host."""
        return sum(block.on_host for block in self.blocks)


class PoolSnapshot:
    """The segments and blocks of a pool at one moment. A snapshot copies tables; `segments` makes the objects."""

    def __init__(self, rows: bytes, pieces: bytes, idle: bytes, devices: Sequence[Device]) -> None:
        """Reads the tables of the core. `Pool.snapshot` makes a snapshot."""
        self._table = np.frombuffer(rows, np.uint64).reshape(-1, len(_COLUMNS))
        self._pieces = np.frombuffer(pieces, np.uint64).reshape(-1, 2)
        self._idle = np.frombuffer(idle, np.uint64).reshape(-1, 3)
        self._devices = tuple(devices)

    @property
    def table(self) -> dict[str, np.ndarray[Any, np.dtype[np.uint64]]]:
        """One array per column, with one entry per block, by address."""
        return {name: self._table[:, index] for index, name in enumerate(_COLUMNS)}

    @cached_property
    def segments(self) -> tuple[SegmentInfo, ...]:
        """The segments by address."""
        found: dict[int, tuple[list[int], list[BlockInfo]]] = {}
        pieces = self._pieces.tolist()
        for row in self._table.tolist():
            segment, _, _, address, nbytes, requested, stream, state, _, _, on_host, first, second, piece, count = row
            graph_pool = (first, second) if first or second else None
            own = self._pieces_of(pieces[piece : piece + count])
            block = BlockInfo(address, nbytes, requested, _STATES[state], stream, on_host, graph_pool, own)
            found.setdefault(segment, (row, []))[1].append(block)
        return tuple(
            SegmentInfo(address, row[1], row[2], bool(row[8]), tuple(blocks))
            for address, (row, blocks) in found.items()
        )

    def _pieces_of(self, rows: list[list[int]]) -> tuple[Piece, ...]:
        found = []
        offset = 0
        for number, nbytes in rows:
            found.append(Piece(self._devices[number] if number < len(self._devices) else None, offset, nbytes))
            offset += nbytes
        return tuple(found)

    @property
    def least_recently_used(self) -> tuple[IdleRange, ...]:
        """What the policy gives up by last use, the least recently used first.

        With ``"stitch"`` these are the cached views that no buffer uses: the first ones are unmapped when a cap is
        reached. With ``"caching"`` and a `garbage_collection_threshold` they are the free segments that may be released
        above the threshold. Empty with other policies, where the last use decides nothing.
        """
        return tuple(IdleRange(*row) for row in self._idle.tolist())

    def total(self, state: str) -> int:
        """Returns the sum of the sizes of all blocks in a state.

        Raises:
            ConfigError: if there is no such state. `BlockInfo` lists the states.
        """
        if state not in _STATES:
            raise ConfigError(f"no block has the state {state!r}; there are {', '.join(_STATES)}")
        column = self._table[:, _COLUMNS.index("state")] == _STATES.index(state)
        return int(self._table[column, _COLUMNS.index("nbytes")].sum())

    def to_torch(self) -> dict[str, Any]:
        """Returns the snapshot in the format of ``torch.cuda.memory._snapshot()``, for PyTorch's viewer."""
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
                    "segment_pool_id": segment.graph_pool or (0, 0),
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
        """The number of blocks."""
        return len(self._table)

    def __repr__(self) -> str:
        segments = len(np.unique(self._table[:, _COLUMNS.index("segment")]))
        return f"PoolSnapshot({segments} segments, {len(self)} blocks)"
