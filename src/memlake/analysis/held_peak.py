"""The peak of the memory that PyTorch itself held, from the record in a snapshot. No replay is needed for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlake.trace import Trace

__all__ = ["held_peak_of"]


def held_peak_of(trace: Trace) -> int | None:
    """Returns the largest sum of PyTorch's segments in the recorded part of the job, in bytes.

    None: the file does not tell, because it has no history, no record, or a record that contradicts itself.
    """
    recorded = trace.recorded
    if recorded is None or trace.history.kind == "state":
        return None
    held = peak = sum(segment.nbytes for segment in recorded.initial)
    for event in recorded.events:
        if event.kind in ("segment_alloc", "segment_map"):
            held += event.nbytes
        elif event.kind in ("segment_free", "segment_unmap"):
            held -= event.nbytes
        peak = max(peak, held)
    return peak if held == sum(segment.nbytes for segment in recorded.final) else None
