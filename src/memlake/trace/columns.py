"""The columns of a trace and their rules.

Every `Trace` fulfils the rules, so a replay need not check them:

- every operation is known, every column has one entry per row;
- an allocation's id is its number: the first allocation of the trace has id 0, the next one 1, and so on;
- an id is allocated once, freed at most once and only after that; it is recorded on a stream only while it is live, and
  its events are done only after its free;
- sizes are at most 2^63 - 1; a cell that means nothing for its row is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.trace.operations import Op
from memlake.units import LARGEST_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

__all__ = [
    "MOST_ALLOCATIONS",
    "MOST_STREAMS",
    "BadRowError",
    "Columns",
    "as_column",
    "has_stream",
    "is_free",
    "normalize",
    "read_only",
]

MOST_STREAMS = 2**16
"""Stream numbers are below this: the column has 16 bits. CUDA programs use few streams."""
MOST_ALLOCATIONS = 2**32 - 1
"""Ids have 32 bits. The last value is not an id, so that code can use it to mean "no allocation"."""


class BadRowError(Exception):
    """A row breaks a rule. The reader of a file turns it into a `TraceError` that names the place in the file."""

    def __init__(self, row: int, reason: str, hint: str = "") -> None:
        super().__init__(row, reason, hint)
        self.row = row
        self.reason = reason
        self.hint = hint


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Makes an array read-only and returns it."""
    array.flags.writeable = False
    return array


def _table(*operations: Op) -> npt.NDArray[np.bool_]:
    """Returns which operations are among these. `table[op]` is faster than `numpy.isin`."""
    table = np.zeros(max(Op).value + 1, np.bool_)
    table[list(operations)] = True
    return read_only(table)


# The operations that use each cell, that free, and that refer to an earlier allocation.
WITH_BYTES = (Op.ALLOCATE, Op.TRIM, Op.PREALLOCATE, Op.RELEASE_POOL)
_WITH_BYTES = _table(*WITH_BYTES)
_WITH_STREAM = _table(Op.ALLOCATE, Op.RECORD_STREAM, Op.FREE_ON, Op.PREALLOCATE)
_WITHOUT_ID = _table(Op.SYNCHRONIZE, Op.EMPTY_CACHE, Op.TRIM, Op.PREALLOCATE, Op.RELEASE_POOL)
_FREES = _table(Op.FREE, Op.FREE_ON)
_REFERS = _table(Op.FREE, Op.FREE_ON, Op.RECORD_STREAM, Op.EVENT_DONE)


@dataclass(frozen=True)
class Columns:
    """One array per column, all of the same length and read-only."""

    op: npt.NDArray[np.uint8]
    id: npt.NDArray[np.uint32]
    bytes: npt.NDArray[np.uint64]
    stream: npt.NDArray[np.uint16]
    tag: npt.NDArray[np.uint32]
    time: npt.NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.op)


def is_free(op: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Returns which rows free an allocation."""
    frees: npt.NDArray[np.bool_] = _FREES[op]
    return frees


def has_stream(op: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Returns which rows name a stream."""
    named: npt.NDArray[np.bool_] = _WITH_STREAM[op]
    return named


def as_column(
    values: npt.ArrayLike, dtype: type[np.integer[Any]], largest: int, name: str, *, smallest: int = 0
) -> npt.NDArray[Any]:
    """Copies a column and converts it to its type in memory.

    Raises:
        BadRowError: for the first value that is not a whole number from `smallest` to `largest`.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise BadRowError(0, f"column {name} must have one dimension, not {array.ndim}")
    if array.size == 0:
        return np.zeros(0, dtype)
    if array.dtype.kind in "fO" and not isinstance(values, np.ndarray) and all(type(v) is int for v in values):  # type: ignore[union-attr]
        # NumPy turns a list into floats or objects if no integer type holds all its numbers.
        array = np.array(values, object)
    elif array.dtype.kind not in "iu":
        raise BadRowError(0, f"column {name} must have whole numbers, not {array.dtype}")
    wrong = np.zeros(len(array), np.bool_)
    # NumPy 2 raises an error for a comparison with a number outside the type's range; its result would be false.
    limits = np.iinfo(array.dtype) if array.dtype.kind != "O" else None
    if limits is None or limits.min < smallest:
        wrong |= (array < smallest).astype(np.bool_)
    if limits is None or limits.max > largest:
        wrong |= (array > largest).astype(np.bool_)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadRowError(row, f"{name} {int(array[row])} is not between {smallest} and {largest}")
    return array.astype(dtype, copy=True)


def normalize(
    op: npt.ArrayLike,
    id: npt.ArrayLike,
    bytes: npt.ArrayLike,
    stream: npt.ArrayLike | None = None,
    tag: npt.ArrayLike | None = None,
    time: npt.ArrayLike | None = None,
    num_tags: int = 0,
) -> Columns:
    """Checks columns against the rules above and numbers the allocations.

    Raises:
        BadRowError: for the first row that breaks a rule.
    """
    op = as_column(op, np.uint8, max(Op).value, "op")
    rows = len(op)
    ids = as_column(id, np.uint64, 2**64 - 1, "id")
    nbytes = as_column(bytes, np.uint64, LARGEST_SIZE, "bytes")
    streams = np.zeros(rows, np.uint16) if stream is None else as_column(stream, np.uint16, MOST_STREAMS - 1, "stream")
    tags = np.zeros(rows, np.uint32) if tag is None else as_column(tag, np.uint32, max(num_tags - 1, 0), "tag")
    times = None if time is None else as_column(time, np.int64, 2**63 - 1, "time", smallest=-(2**63))
    for name, column in (("id", ids), ("bytes", nbytes), ("stream", streams), ("tag", tags), ("time", times)):
        if column is not None and len(column) != rows:
            raise BadRowError(min(len(column), rows), f"column {name} has {len(column)} rows and column op has {rows}")
    # Other programs leave arbitrary values in unused cells. Zeros make traces with the same meaning equal.
    nbytes[~_WITH_BYTES[op]] = 0
    streams[~_WITH_STREAM[op]] = 0
    ids[_WITHOUT_ID[op]] = 0
    _refuse_first((op == Op.STEP.value) & (ids >= 2**32), lambda row: f"step {ids[row]} is not below 2^32")
    numbered = _number_allocations(op, ids)
    _check_lives(op, ids, numbered)
    own = numbered.astype(np.uint32)
    return Columns(
        read_only(op),
        read_only(own),
        read_only(nbytes),
        read_only(streams),
        read_only(tags),
        None if times is None else read_only(times),
    )


def _refuse_first(wrong: npt.NDArray[np.bool_], why: Callable[[int], str]) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadRowError(row, why(row))


def _number_allocations(op: npt.NDArray[np.uint8], ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Returns the id column with the number of each allocation as its id. Rows without an allocation keep their id."""
    allocated = ids[op == Op.ALLOCATE.value]
    if len(allocated) > MOST_ALLOCATIONS:
        raise BadRowError(0, f"{len(allocated)} allocations are more than the {MOST_ALLOCATIONS} that ids can name")
    refers = _REFERS[op]
    if np.array_equal(allocated, np.arange(len(allocated), dtype=np.uint64)):
        _refuse_first(refers & (ids >= len(allocated)), lambda row: _unknown(op, ids, row))
        return ids
    order = np.argsort(allocated, kind="stable")
    ordered = allocated[order]
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        # The sort is stable, so the second of two equal ids is the later allocation.
        row = int(np.flatnonzero(op == Op.ALLOCATE.value)[order[twice + 1].min()])
        raise BadRowError(row, f"id {ids[row]} is allocated a second time", "give every allocation an id of its own")
    numbered: npt.NDArray[np.uint64] = ids.copy()
    numbered[op == Op.ALLOCATE.value] = np.arange(len(allocated), dtype=np.uint64)
    wanted = ids[refers]
    if len(wanted):
        found = np.minimum(np.searchsorted(ordered, wanted), max(len(ordered) - 1, 0))
        known = ordered[found] == wanted if len(ordered) else np.zeros(len(wanted), np.bool_)
        missing = refers.copy()
        missing[refers] = ~known
        _refuse_first(missing, lambda row: _unknown(op, ids, row))
        numbered[refers] = order[found].astype(np.uint64)
    return numbered


def _check_lives(op: npt.NDArray[np.uint8], ids: npt.NDArray[np.uint64], numbered: npt.NDArray[np.uint64]) -> None:
    """Checks that each allocation is freed once, recorded on streams while it is live, and done after its free."""
    born = np.flatnonzero(op == Op.ALLOCATE.value)
    rows = np.arange(len(op))
    refers = np.flatnonzero(_REFERS[op])
    early = np.zeros(len(op), np.bool_)
    early[refers] = born[numbered[refers]] > refers
    _refuse_first(early, lambda row: _unknown(op, ids, row))
    frees = np.flatnonzero(is_free(op))
    died = np.full(len(born), len(op))
    # NumPy keeps the last assigned value, so the frees are assigned backwards to keep the first.
    died[numbered[frees][::-1]] = frees[::-1]
    again = np.zeros(len(op), np.bool_)
    again[frees] = died[numbered[frees]] < frees
    _refuse_first(again, lambda row: f"id {ids[row]} is freed a second time")
    dead = np.zeros(len(op), np.bool_)
    recorded = np.flatnonzero(op == Op.RECORD_STREAM.value)
    dead[recorded] = died[numbered[recorded]] < recorded
    _refuse_first(dead, lambda row: f"id {ids[row]} is recorded on a stream after it was freed")
    done = np.flatnonzero(op == Op.EVENT_DONE.value)
    live = np.zeros(len(op), np.bool_)
    live[done] = died[numbered[done]] > rows[done]
    _refuse_first(live, lambda row: f"the events of id {ids[row]} are done before it is freed")


def _unknown(op: npt.NDArray[np.uint8], ids: npt.NDArray[np.uint64], row: int) -> str:
    deed = {Op.FREE: "freed", Op.FREE_ON: "freed", Op.RECORD_STREAM: "recorded on a stream"}
    return f"id {ids[row]} is {deed.get(Op(op[row]), 'reported done')}, but was not allocated before"
