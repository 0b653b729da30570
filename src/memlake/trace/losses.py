"""What a format may lose of a trace: each loss is the rest of a sentence about the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from memlake.trace.trace import Trace

__all__ = ["NO_METADATA", "NO_RECORD", "NO_STACKS", "lost_context", "lost_metadata"]

NO_METADATA = "leaves out settings and other metadata"
NO_RECORD = "leaves out the addresses, segments and blocks of the program's own allocator"
NO_STACKS = "leaves out stacks, labels and annotations"


def lost_context(trace: Trace) -> list[str]:
    """Returns what a table of the rows loses: stacks, and the record of the program's own allocator."""
    lost = [] if trace.context is None else [NO_STACKS]
    if trace.recorded is not None:
        lost.append(NO_RECORD)
    return lost


def lost_metadata(trace: Trace, kept: Collection[str] = ()) -> list[str]:
    """Returns what a format without metadata loses. A reader of the file takes every history for a complete one.

    Args:
        trace: the trace.
        kept: the keys of the metadata that the format has nevertheless.
    """
    lost = [NO_METADATA] if set(trace.metadata) - set(kept) else []
    if trace.history.kind != "complete":
        known = f"leaves out that the history is not complete ({trace.history.text})"
        lost.append(f"{known}, so that memlake will take it for complete")
    return lost
