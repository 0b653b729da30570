"""The peak of the memory that PyTorch itself held, from the record in a snapshot. No replay is needed for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memlake.trace import Trace
    from memlake.trace.recorded import RecordedSegment

__all__ = ["held_peak_of"]


def held_peak_of(trace: Trace) -> int | None:
    """Returns the largest sum of PyTorch's segments in the recorded part of the job, in bytes.

    None: the file does not tell, because it has no history, no record, or a record that contradicts itself.
    """
    recorded = trace.recorded
    if recorded is None or trace.history.kind == "state":
        return None
    change = sum(event.held_change for event in recorded.events)
    is_consistent = _total(recorded.initial) + change == _total(recorded.final)
    return recorded.held_peak if is_consistent else None


def _total(segments: Iterable[RecordedSegment]) -> int:
    return sum(segment.nbytes for segment in segments)
