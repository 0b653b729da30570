"""Infers the layout of memory at the start of a record from the layout at its end.

Undoing the segment events in reverse order gives the segments. Their blocks are the allocations that were live at the
start, each with its slack, and the free blocks between them. Slack is the unused end of a block: in the large pool,
PyTorch's native allocator does not split off a remainder of 1 MiB or less. If the free space after an allocation is
larger than that, a part of it may still be slack, because the next block was freed before the record began. The
address of a later allocation there shows where the block ended.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlake.trace.live_bytes import ROUNDING
from memlake.trace.recorded import RecordedBlock, RecordedSegment
from memlake.trace.snapshot import SMALL_SEGMENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from memlake.trace.recorded import RecordedEvent

__all__ = ["Allocations", "Carried", "initial_segments"]

LARGEST_SLACK = 1024**2
"""kSmallSize of PyTorch: in the large pool, a remainder must be larger than this to be split off."""
LARGE_PAGE = 20 * 1024**2
"""kLargeBuffer of PyTorch: the size of the pages of an expandable segment for large requests."""


class Carried(NamedTuple):
    """An allocation that is live when the record begins.

    Attributes:
        id: its id in the trace.
        address: its address.
        requested: the requested size.
        nbytes: the size of its block, if it is still live at the end; else None.
        freed: the row of the trace that frees it; the trace's length if none does.
    """

    id: int
    address: int
    requested: int
    nbytes: int | None
    freed: int


@dataclass(frozen=True)
class Allocations:
    """Addresses in ascending order, and the row of the allocation at each."""

    addresses: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.int64]

    def first_within(self, begin: int, end: int, before: int) -> int | None:
        """Returns the lowest address from `begin` to `end` that is allocated before a row; None if there is none."""
        first = np.searchsorted(self.addresses, np.uint64(min(begin, 2**64 - 1)), "left")
        last = np.searchsorted(self.addresses, np.uint64(min(end, 2**64 - 1)), "right")
        early = np.flatnonzero(self.rows[first:last] < before)
        return int(self.addresses[first + early[0]]) if len(early) else None


def initial_segments(
    final: Sequence[RecordedSegment],
    events: Sequence[RecordedEvent],
    carried: Sequence[Carried],
    later: Allocations,
) -> tuple[RecordedSegment, ...]:
    """Returns the segments before the first event, with their blocks.

    Args:
        final: the segments at the end.
        events: the segment events, in order.
        carried: the allocations that were live at the start, by address.
        later: the allocations made during the record.
    """
    bare = sorted([*_rewind_plain(final, events), *_rewind_mapped(final, events)], key=lambda segment: segment.address)
    addresses = [allocation.address for allocation in carried]
    # Segments overlap only in a forged file; then an allocation belongs to the last segment that begins before it.
    ends = [*(segment.address for segment in bare[1:]), 2**65]
    segments = []
    for segment, next_segment in zip(bare, ends, strict=False):
        first = bisect_left(addresses, segment.address)
        last = bisect_left(addresses, min(segment.address + segment.nbytes, next_segment))
        segments.append(
            # dataclasses.replace takes longer than finding the blocks.
            RecordedSegment(
                segment.address,
                segment.nbytes,
                segment.stream,
                segment.kind,
                segment.is_expandable,
                segment.pool,
                tuple(_blocks(segment, carried[first:last], later)),
            )
        )
    return tuple(segments)


def _rewind_plain(final: Iterable[RecordedSegment], events: Sequence[RecordedEvent]) -> list[RecordedSegment]:
    """Returns the initial segments that were made by one cudaMalloc each."""
    there = {segment.address: segment for segment in final if not segment.is_expandable}
    for event in reversed(events):
        if event.kind == "segment_alloc":
            there.pop(event.address, None)
        elif event.kind == "segment_free":
            kind = "small" if event.nbytes <= SMALL_SEGMENT else "large"
            there[event.address] = RecordedSegment(event.address, event.nbytes, event.stream, kind, False, (0, 0), ())
    return list(there.values())


def _rewind_mapped(final: Iterable[RecordedSegment], events: Sequence[RecordedEvent]) -> list[RecordedSegment]:
    """Returns the initially mapped parts of expandable segments."""
    last = [segment for segment in final if segment.is_expandable]
    mapped: dict[int, _Ranges] = {}
    for segment in last:
        mapped.setdefault(segment.stream, _Ranges()).add(segment.address, segment.address + segment.nbytes)
    for event in reversed(events):
        if event.kind == "segment_map":
            mapped.setdefault(event.stream, _Ranges()).remove(event.address, event.address + event.nbytes)
        elif event.kind == "segment_unmap":
            mapped.setdefault(event.stream, _Ranges()).add(event.address, event.address + event.nbytes)
    last.sort(key=lambda segment: segment.address)
    starts = [segment.address for segment in last]
    segments = []
    for stream, ranges in mapped.items():
        for begin, end in ranges:
            # The kind is that of the final segment at this place. Without one, the page size tells small from large.
            place = bisect_left(starts, end) - 1
            heir = last[place] if place >= 0 and last[place].address + last[place].nbytes > begin else None
            kind = heir.kind if heir else "small" if (end - begin) % LARGE_PAGE else "large"
            pool = heir.pool if heir else (0, 0)
            segments.append(RecordedSegment(begin, end - begin, stream, kind, True, pool, ()))
    return segments


def _blocks(segment: RecordedSegment, carried: Sequence[Carried], later: Allocations) -> list[RecordedBlock]:
    """Returns the blocks that tile a segment."""
    blocks: list[RecordedBlock] = []
    at, end = segment.address, segment.address + segment.nbytes
    limits = [*(allocation.address for allocation in carried[1:]), end]
    for allocation, limit in zip(carried, limits, strict=False):
        address, size = allocation.address, allocation.nbytes
        if address > at:
            blocks.append(RecordedBlock(at, address - at, 0, "free", None))
        if size is None:
            size = _block_size(segment, allocation, limit, later)
        if size > limit - address:
            size = limit - address
        blocks.append(RecordedBlock(address, size, allocation.requested, "live", allocation.id))
        at = address + size
    if at < end:
        blocks.append(RecordedBlock(at, end - at, 0, "free", None))
    return blocks


def _block_size(segment: RecordedSegment, allocation: Carried, limit: int, later: Allocations) -> int:
    """Returns the size of the block of an allocation that is freed during the record."""
    size = max(-(-allocation.requested // ROUNDING) * ROUNDING, ROUNDING)
    has_slack = segment.kind == "large" and not segment.is_expandable
    gap = limit - (allocation.address + size)
    if not has_slack or gap <= 0:
        return size
    if gap <= LARGEST_SLACK:
        return size + gap
    end = allocation.address + size
    neighbour = later.first_within(end, end + LARGEST_SLACK, allocation.freed)
    return size if neighbour is None else neighbour - allocation.address


class _Ranges:
    """Ranges of addresses that neither overlap nor touch, by address."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._begins, self._ends, strict=True))

    def add(self, begin: int, end: int) -> None:
        """Adds a range, which may touch or overlap others."""
        first = bisect_left(self._ends, begin)
        last = bisect_right(self._begins, end)
        if first < last:
            begin, end = min(begin, self._begins[first]), max(end, self._ends[last - 1])
        self._begins[first:last] = [begin]
        self._ends[first:last] = [end]

    def remove(self, begin: int, end: int) -> None:
        """Removes a range. Parts of it may be missing already."""
        first = bisect_right(self._ends, begin)
        last = bisect_left(self._begins, end)
        if first >= last:
            return
        rests = [(self._begins[first], begin), (end, self._ends[last - 1])]
        rests = [(left, right) for left, right in rests if left < right]
        self._begins[first:last] = [left for left, _ in rests]
        self._ends[first:last] = [right for _, right in rests]
