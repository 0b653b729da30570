"""The free pieces of PyTorch's memory at one row of a trace, from the recorded addresses and segments."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlake.trace import Op
from memlake.trace.columns import is_free

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memlake.trace import Recorded, RecordedEvent, Trace

__all__ = ["FreePiece", "free_pieces_at", "pending_at"]

_UNIT = 512
_BEYOND = 2**65  # larger than every address


@dataclass(frozen=True)
class FreePiece:
    """A free piece. It is at most this large: PyTorch may not have split a block that is a little too large.

    Attributes:
        nbytes: its size.
        stream: the number of the stream of its segment.
        pool: the private pool of its segment; (0, 0) for the default pool; None if the file does not tell, because the
            segment was released later.
    """

    nbytes: int
    stream: int
    pool: tuple[int, int] | None


class _Range(NamedTuple):
    """An address range that PyTorch holds: a segment, or a mapped part of an expandable segment."""

    start: int
    end: int
    stream: int
    is_mapped: bool


class _Ranges:
    """The address ranges that PyTorch holds, sorted and without overlaps."""

    def __init__(self) -> None:
        self._all: list[_Range] = []

    def add(self, start: int, nbytes: int, stream: int, is_mapped: bool) -> None:
        insort(self._all, _Range(start, start + nbytes, stream, is_mapped))

    def remove(self, start: int, nbytes: int) -> None:
        end = start + nbytes
        first = max(bisect_right(self._all, (start, _BEYOND)) - 1, 0)
        last = bisect_left(self._all, (end,))
        kept = []
        for one in self._all[first:last]:
            parts = ((one.start, min(one.end, start)), (max(one.start, end), one.end))
            kept += [one._replace(start=left, end=right) for left, right in parts if left < right]
        self._all[first:last] = kept

    def joined(self) -> list[_Range]:
        """Returns the ranges with the neighbouring parts of an expandable segment joined."""
        joined: list[_Range] = []
        for one in self._all:
            last = joined[-1] if joined else None
            if last and last.is_mapped and one.is_mapped and last.end == one.start and last.stream == one.stream:
                joined[-1] = last._replace(end=one.end)
            else:
                joined.append(one)
        return joined


def pending_at(trace: Trace, row: int) -> list[int]:
    """Returns the ids of the allocations that were freed before a row, but that a stream could still use there."""
    before = trace.op[:row]
    used = np.zeros(trace.num_allocations, np.bool_)
    used[trace.id[:row][before == Op.RECORD_STREAM.value]] = True
    freed = np.zeros(trace.num_allocations, np.bool_)
    freed[trace.id[:row][is_free(before)]] = True
    freed[trace.id[:row][before == Op.EVENT_DONE.value]] = False
    pending: list[int] = np.flatnonzero(used & freed).tolist()
    return pending


def free_pieces_at(trace: Trace, row: int) -> list[FreePiece] | None:
    """Returns the free pieces before a row at which PyTorch refused a request.

    None: the file does not tell, or its addresses and segments contradict each other.
    """
    recorded = trace.recorded
    if recorded is None or trace.history.kind == "state":
        return None
    held = _held_at(recorded, row)
    blocks = _blocks_at(trace, recorded, row)
    pools = sorted(
        (segment.address, segment.address + segment.nbytes, segment.pool)
        for segment in (*recorded.final, *recorded.initial)
    )
    found: list[FreePiece] = []
    place = 0
    for start, end, stream, _ in held:
        at = start
        while place < len(blocks) and blocks[place][0] < end:
            block, nbytes = blocks[place]
            if block < at or block + nbytes > end:
                return None
            if block > at:
                found.append(FreePiece(block - at, stream, _pool_at(pools, at)))
            at = block + nbytes
            place += 1
        if end > at:
            found.append(FreePiece(end - at, stream, _pool_at(pools, at)))
    return found if place == len(blocks) else None


def _held_at(recorded: Recorded, row: int) -> list[_Range]:
    ranges = _Ranges()
    for segment in recorded.initial:
        ranges.add(segment.address, segment.nbytes, segment.stream, segment.is_expandable)
    for event in _before_refusal(recorded.events, row):
        if event.kind in ("segment_alloc", "segment_map"):
            ranges.add(event.address, event.nbytes, event.stream, event.kind == "segment_map")
        elif event.kind in ("segment_free", "segment_unmap"):
            ranges.remove(event.address, event.nbytes)
    return ranges.joined()


def _before_refusal(events: Iterable[RecordedEvent], row: int) -> Iterable[RecordedEvent]:
    for event in events:
        if event.row > row or (event.row == row and event.kind == "oom"):
            return
        yield event


def _blocks_at(trace: Trace, recorded: Recorded, row: int) -> list[tuple[int, int]]:
    """Returns address and size of each block that was live or pending before a row, by address."""
    born = np.flatnonzero(trace.op == Op.ALLOCATE.value)
    is_there = born < row
    before = trace.op[:row]
    is_there[trace.id[:row][is_free(before)]] = False
    is_there[pending_at(trace, row)] = True
    rows = born[is_there]
    sizes = [-(-nbytes // _UNIT) * _UNIT for nbytes in trace.bytes[rows].tolist()]
    return sorted(
        (address, nbytes)
        for address, nbytes in zip(recorded.addresses[rows].tolist(), sizes, strict=True)
        if nbytes and address
    )


def _pool_at(pools: list[tuple[int, int, tuple[int, int]]], address: int) -> tuple[int, int] | None:
    place = bisect_right(pools, (address, _BEYOND, (0, 0))) - 1
    if place >= 0 and pools[place][0] <= address < pools[place][1]:
        return pools[place][2]
    return None
