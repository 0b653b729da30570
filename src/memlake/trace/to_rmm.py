"""Writes a trace as the CSV file of RMM's `logging_resource_adaptor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.trace.losses import NO_STACKS, lost_metadata
from memlake.trace.operations import Op
from memlake.trace.streams import handles_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlake.trace.trace import Trace

__all__ = ["lost_in_rmm", "write_rmm"]

_HEADER = "Thread,Time,Action,Pointer,Size,Stream\n"
_FIRST_POINTER = 0x7F0000000000
_ROUNDING = 256
"""RMM's alignment of pointers."""
_WITHOUT_LINE = {
    Op.RECORD_STREAM: "uses on other streams",
    Op.EVENT_DONE: "when events were complete",
    Op.STEP: "steps",
    Op.SYNCHRONIZE: "synchronisations of the device",
    Op.EMPTY_CACHE: "releases of the cache",
    Op.TRIM: "trims",
    Op.PREALLOCATE: "preallocations",
    Op.RELEASE_POOL: "releases of graph pools",
}


def lost_in_rmm(trace: Trace) -> list[str]:
    """Returns what the log cannot hold of a trace: the rest of a sentence about the file, one each."""
    lost = [f"leaves out {text}" for op, text in _WITHOUT_LINE.items() if (trace.op == op.value).any()]
    if trace.time is None:
        lost.append("has 0 for all times, because the trace has no times")
    if trace.tags:
        lost.append("leaves out tags")
    lost += lost_metadata(trace, kept=("source", "streams", "num_failures"))
    if trace.context is not None:
        lost.append(NO_STACKS)
    if trace.recorded is not None and trace.recorded.final:
        lost.append("leaves out segments and blocks")
    return lost


def write_rmm(trace: Trace) -> Iterator[str]:
    """Returns the lines of the log. Pointers are those of the record, or one after the other if there are none."""
    yield _HEADER
    handles = handles_of(trace.metadata, int(trace.stream.max(initial=0)))
    recorded = trace.recorded
    known = [] if recorded is None else recorded.addresses.tolist()
    failures = {} if recorded is None else {event.row: event for event in recorded.events if event.kind == "oom"}
    times = [0] * len(trace) if trace.time is None else trace.time.tolist()
    pointers: list[tuple[int, int, int]] = []
    next_pointer = _FIRST_POINTER
    columns = (trace.op.tolist(), trace.id.tolist(), trace.bytes.tolist(), trace.stream.tolist())
    for row, (op, id, nbytes, stream) in enumerate(zip(*columns, strict=True)):
        handle = handles[stream]
        if row in failures:
            yield _line(times[row], "allocate failure", 0, failures[row].nbytes, handle)
        if op == Op.ALLOCATE:
            pointer = known[row] if known and known[row] else next_pointer
            next_pointer = max(next_pointer, pointer) + max(-(-nbytes // _ROUNDING), 1) * _ROUNDING
            pointers.append((pointer, nbytes, handle))
            yield _line(times[row], "allocate", pointer, nbytes, handle)
        elif op in (Op.FREE, Op.FREE_ON):
            pointer, size, own = pointers[id]
            yield _line(times[row], "free", pointer, size, handle if op == Op.FREE_ON else own)


def _line(time: int, action: str, pointer: int, nbytes: int, handle: int) -> str:
    return f"0,{time // 10**6}.{time % 10**6:06},{action},{pointer:#x},{nbytes},{handle:#x}\n"
