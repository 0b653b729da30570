"""What a program's own allocator did while a trace was recorded: addresses, segments, blocks.

A replay does not need it. It is kept so that a replay of the same policy can be compared with the truth, byte by byte.
Numbers only: where in a program something was allocated is the trace's tag.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Recorded", "RecordedBlock", "RecordedEvent", "RecordedSegment"]


@dataclass(frozen=True)
class RecordedBlock:
    """A piece of a segment.

    Attributes:
        address: where it begins.
        nbytes: its size, slack included.
        requested: what was asked for; 0 for a free block.
        state: ``"live"``, ``"pending"`` (freed, and awaited by some stream) or ``"free"``.
        id: the allocation's id in the trace; None for a free block, and for one that the trace knows nothing of.
    """

    address: int
    nbytes: int
    requested: int
    state: str
    id: int | None


@dataclass(frozen=True)
class RecordedSegment:
    """A contiguous range that the allocator held.

    Attributes:
        address: where it begins.
        nbytes: its size.
        stream: whose memory it is, as numbered in the trace.
        kind: ``"small"`` (for requests up to 1 MiB) or ``"large"``.
        is_expandable: whether it is a mapped part of an expandable segment.
        pool: the private pool that it belongs to; (0, 0) is the default pool.
        blocks: what it is divided into, by address, without gaps.
    """

    address: int
    nbytes: int
    stream: int
    kind: str
    is_expandable: bool
    pool: tuple[int, int]
    blocks: tuple[RecordedBlock, ...]


@dataclass(frozen=True)
class RecordedEvent:
    """Something that the allocator did, or that happened to it, between two rows of the trace.

    Attributes:
        row: it came before this row; the length of the trace if it came last.
        kind: ``"segment_alloc"``, ``"segment_free"``, ``"segment_map"``, ``"segment_unmap"``, ``"oom"`` or
            ``"snapshot"``.
        address: of the segment, or of the mapped part; 0 where there is none.
        nbytes: its size; for ``"oom"`` what was asked for.
        stream: as numbered in the trace.
        time: in microseconds, as the trace's own; None if times were not recorded.
        device_free: for ``"oom"``, what the driver said was free.
    """

    row: int
    kind: str
    address: int
    nbytes: int
    stream: int
    time: int | None = None
    device_free: int | None = None


@dataclass(frozen=True, eq=False)
class Recorded:
    """What the program's own allocator did.

    Attributes:
        addresses: for each row of the trace that is an allocation its address; 0 for the other rows.
        events: segments that came and went, and failures, in order.
        initial: the segments at the first row, as far as they can be known; empty if the record is complete.
        final: the segments at the end.
        is_complete: whether the record begins before the first segment, so that nothing had to be inferred.
    """

    addresses: npt.NDArray[np.uint64]
    events: tuple[RecordedEvent, ...] = field(repr=False)
    initial: tuple[RecordedSegment, ...] = field(default=(), repr=False)
    final: tuple[RecordedSegment, ...] = field(default=(), repr=False)
    is_complete: bool = False
