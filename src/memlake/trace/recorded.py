"""Records of a program's own allocator: its addresses, segments and blocks while a trace was recorded.

A replay does not need the record. `verify` compares a replay of the same policy with it. The record has only numbers;
the tags of the trace say which code allocated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

__all__ = ["Recorded", "RecordedBlock", "RecordedEvent", "RecordedSegment"]


class RecordedBlock(NamedTuple):
    """A block of a segment. It is a tuple, because a snapshot may have a hundred thousand blocks.

    Attributes:
        address: the address of the first byte.
        nbytes: the size, rounding included.
        requested: the requested size; 0 for a free block.
        state: ``"live"``, ``"pending"`` (freed, but a stream may still use it) or ``"free"``.
        id: the id of the allocation in the trace; None for a free block or an allocation that is not in the trace.
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
        address: the address of the first byte.
        nbytes: the size.
        stream: the number of its stream in the trace.
        kind: ``"small"`` (for requests up to 1 MiB) or ``"large"``.
        is_expandable: True for a mapped part of an expandable segment.
        pool: the private pool of the segment; (0, 0) is the default pool.
        blocks: the blocks by address, without gaps.
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
    """An action or a failure of the allocator between two rows of the trace.

    Attributes:
        row: the event came before this row; the length of the trace if it came last.
        kind: ``"segment_alloc"``, ``"segment_free"``, ``"segment_map"``, ``"segment_unmap"``, ``"oom"`` or
            ``"snapshot"``.
        address: the address of the segment or of the mapped part; 0 if there is none.
        nbytes: the size; for ``"oom"`` the requested size.
        stream: the number of the stream in the trace.
        time: the time in microseconds, as in the trace; None if times were not recorded.
        device_free: for ``"oom"``, the free memory that the driver reported.
        stack: the stack of the event, as a place in `Context.stacks` of the trace; 0 if none was recorded.
    """

    row: int
    kind: str
    address: int
    nbytes: int
    stream: int
    time: int | None = None
    device_free: int | None = None
    stack: int = 0

    @property
    def held_change(self) -> int:
        """How much more memory the allocator holds after the event, in bytes."""
        if self.kind in ("segment_alloc", "segment_map"):
            return self.nbytes
        return -self.nbytes if self.kind in ("segment_free", "segment_unmap") else 0


@dataclass(frozen=True, eq=False)
class Recorded:
    """The record of the program's own allocator.

    Attributes:
        addresses: the address of each row that is an allocation; 0 for the other rows.
        events: created and released segments, and failures, in order.
        initial: the segments at the first row, as far as they are known; empty if the record is complete.
        final: the segments at the end.
        is_complete: True if the record begins before the first segment, so that no segment had to be inferred.
    """

    addresses: npt.NDArray[np.uint64]
    events: tuple[RecordedEvent, ...] = field(repr=False)
    initial: tuple[RecordedSegment, ...] = field(default=(), repr=False)
    final: tuple[RecordedSegment, ...] = field(default=(), repr=False)
    is_complete: bool = False

    def held_after_events(self) -> Iterator[tuple[RecordedEvent, int]]:
        """Yields each event with the bytes that the allocator held after it."""
        held = sum(segment.nbytes for segment in self.initial)
        for event in self.events:
            held += event.held_change
            yield event, held

    @property
    def held_peak(self) -> int:
        """The most memory that the allocator held, in bytes."""
        initial = sum(segment.nbytes for segment in self.initial)
        return max([initial, *(held for _, held in self.held_after_events())])

    def without_stacks(self) -> Recorded:
        """Returns the same record without the stacks of its events."""
        return replace(self, events=tuple(replace(event, stack=0) for event in self.events))
