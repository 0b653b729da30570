"""The members of a trace file for the record of the program's own allocator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.trace.columns import read_only
from memlake.trace.recorded import Recorded, RecordedBlock, RecordedEvent, RecordedSegment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

__all__ = ["COLUMNS", "TEXTS", "record_from", "record_members", "record_memory"]

_EVENTS = {"row": "u8", "kind": "u1", "address": "u8", "bytes": "u8", "stream": "u2", "time": "i8", "free": "i8"}
_SEGMENTS = {
    "address": "u8",
    "bytes": "u8",
    "stream": "u2",
    "small": "u1",
    "expandable": "u1",
    "pool_first": "i8",
    "pool_second": "i8",
    "blocks": "u4",
}
_BLOCKS = {"address": "u8", "bytes": "u8", "requested": "u8", "state": "u1", "id": "i8"}
COLUMNS = (
    "record_address",
    *(f"record_event_{name}" for name in (*_EVENTS, "stack")),
    *(f"record_segment_{name}" for name in _SEGMENTS),
    *(f"record_block_{name}" for name in _BLOCKS),
)
TEXTS = ("record",)
STATES = ("live", "pending", "free")
# CPython's memory for one of the objects below with its numbers.
OBJECT_BYTES = 400


def record_members(recorded: Recorded) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Returns the arrays of a record, and the value of its JSON text."""
    kinds = sorted({event.kind for event in recorded.events})
    number = {kind: place for place, kind in enumerate(kinds)}
    events = [
        (
            event.row,
            number[event.kind],
            event.address,
            event.nbytes,
            event.stream,
            -1 if event.time is None else event.time,
            # The free memory of a device has far less than 63 bits.
            -1 if event.device_free is None else min(event.device_free, 2**63 - 1),
            event.stack,
        )
        for event in recorded.events
    ]
    both = (*recorded.initial, *recorded.final)
    segments = [
        (one.address, one.nbytes, one.stream, one.kind == "small", one.is_expandable, *one.pool, len(one.blocks))
        for one in both
    ]
    blocks = [
        (one.address, one.nbytes, one.requested, STATES.index(one.state), -1 if one.id is None else one.id)
        for segment in both
        for one in segment.blocks
    ]
    columns = {"record_address": recorded.addresses}
    columns |= _columns("record_event", _EVENTS | {"stack": "u4"}, events)
    columns |= _columns("record_segment", _SEGMENTS, segments)
    columns |= _columns("record_block", _BLOCKS, blocks)
    return columns, {
        "record": {"is_complete": recorded.is_complete, "kinds": kinds, "num_initial": len(recorded.initial)}
    }


def record_memory(counts: Mapping[str, int]) -> int:
    """Returns about how many bytes the objects of a record need, from the number of entries of each member."""
    names = ("record_event_row", "record_segment_address", "record_block_address")
    return OBJECT_BYTES * sum(counts.get(name, 0) for name in names)


def record_from(
    arrays: Mapping[str, npt.NDArray[Any]],
    texts: Mapping[str, Any],
    num_rows: int,
    num_allocations: int,
    num_stacks: int,
) -> Recorded | None:
    """Makes the record of the members of a file; None if the file has none.

    Raises:
        ValueError: if the members contradict each other or the trace.
    """
    if "record" not in texts:
        return None
    about = texts["record"]
    missing = [name for name in COLUMNS if name not in arrays]
    if missing or not isinstance(about, dict):
        raise ValueError(f"there is a record, but no {', '.join(missing) or 'description of it'}")
    kinds, num_initial, is_complete = (about.get(name) for name in ("kinds", "num_initial", "is_complete"))
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise ValueError("the kinds of events must be a list of strings")
    if type(num_initial) is not int or type(is_complete) is not bool:
        raise ValueError("num_initial must be a number, and is_complete true or false")
    addresses = arrays["record_address"]
    if len(addresses) != num_rows:
        raise ValueError(f"the record has {len(addresses)} addresses, and the trace has {num_rows} rows")
    events = _rows(arrays, "record_event", (*_EVENTS, "stack"))
    if any(event[-1] >= num_stacks for event in events):
        raise ValueError(f"an event of the record names a stack, and there are {num_stacks}")
    segments = _rows(arrays, "record_segment", tuple(_SEGMENTS))
    blocks = _blocks(_rows(arrays, "record_block", tuple(_BLOCKS)), num_allocations)
    made = _segments(segments, blocks)
    if not 0 <= num_initial <= len(made):
        raise ValueError(f"there are no {num_initial} segments")
    return Recorded(
        read_only(addresses.astype(np.uint64)),
        tuple(_event(event, kinds, num_rows) for event in events),
        tuple(made[:num_initial]),
        tuple(made[num_initial:]),
        is_complete,
    )


def _columns(prefix: str, types: Mapping[str, str], rows: Sequence[Sequence[int]]) -> dict[str, npt.NDArray[Any]]:
    columns = zip(*rows, strict=True) if rows else ((),) * len(types)
    return {
        f"{prefix}_{name}": np.array(column, f"<{dtype}")
        for (name, dtype), column in zip(types.items(), columns, strict=True)
    }


def _rows(arrays: Mapping[str, npt.NDArray[Any]], prefix: str, names: Sequence[str]) -> list[tuple[int, ...]]:
    columns = [arrays[f"{prefix}_{name}"].tolist() for name in names]
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"the columns {prefix} have different lengths")
    return list(zip(*columns, strict=True))


def _event(event: tuple[int, ...], kinds: Sequence[str], num_rows: int) -> RecordedEvent:
    row, kind, address, nbytes, stream, time, free, stack = event
    if not 0 <= row <= num_rows or not 0 <= kind < len(kinds) or min(address, nbytes, stream, stack) < 0:
        raise ValueError(f"an event of the record names row {row} and kind {kind}, or has a negative number")
    return RecordedEvent(
        row,
        kinds[kind],
        address,
        nbytes,
        stream,
        None if time < 0 else time,
        None if free < 0 else free,
        stack,
    )


def _blocks(rows: list[tuple[int, ...]], num_allocations: int) -> list[RecordedBlock]:
    blocks = []
    for address, nbytes, requested, state, id in rows:
        if not 0 <= state < len(STATES) or not -1 <= id < num_allocations or min(address, nbytes, requested) < 0:
            raise ValueError(f"a block of the record has state {state} and id {id}, or a negative number")
        blocks.append(RecordedBlock(address, nbytes, requested, STATES[state], None if id < 0 else id))
    return blocks


def _segments(rows: list[tuple[int, ...]], blocks: list[RecordedBlock]) -> list[RecordedSegment]:
    segments, first = [], 0
    for address, nbytes, stream, is_small, is_expandable, pool_first, pool_second, count in rows:
        if min(address, nbytes, stream, count) < 0 or first + count > len(blocks):
            raise ValueError("a segment of the record has a negative number, or more blocks than there are")
        segments.append(
            RecordedSegment(
                address,
                nbytes,
                stream,
                "small" if is_small else "large",
                bool(is_expandable),
                (pool_first, pool_second),
                tuple(blocks[first : first + count]),
            )
        )
        first += count
    if first != len(blocks):
        raise ValueError(f"the segments of the record have {first} blocks, and there are {len(blocks)}")
    return segments
