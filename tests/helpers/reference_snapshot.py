"""A second way from the events of a snapshot to the rows of a trace, in Python: the core must agree with it."""

from __future__ import annotations

from typing import Any, NamedTuple

from memlake.trace import Op

UNKNOWN_STREAM = 2**64 - 1


class ReferenceRow(NamedTuple):
    """A row with the handle of its stream, and with the address of an allocation."""

    op: int
    id: int
    nbytes: int
    stream: int
    address: int


def rows_of(events: list[dict[str, Any]], segments: list[dict[str, Any]]) -> list[ReferenceRow]:
    """Returns the rows of the events of device 0. The fields must be right; every segment must be of device 0."""
    rows: list[ReferenceRow] = []
    live: dict[int, Any] = {}
    pending: dict[int, Any] = {}
    seen: set[int] = set()
    carried: list[tuple[int, int, int]] = []
    has_completions = any(event["action"] == "free_completed" for event in events)
    num_allocations = 0

    def stream_of(entry: dict[str, Any]) -> int:
        handle = entry.get("stream", 0) % 2**64
        return 0 if handle == 1 else handle

    def completes(number: int) -> bool:
        if not 0 < number < len(events):
            return False
        before, event = events[number - 1], events[number]
        actions = before["action"], event["action"]
        return actions == ("free_requested", "free_completed") and before["addr"] == event["addr"]

    for number, event in enumerate(events):
        action, address = event["action"], event.get("addr", 0)
        if action == "alloc":
            if address in live:
                rows.append(ReferenceRow(Op.FREE, live.pop(address), 0, 0, 0))
            if address in pending:
                rows.append(ReferenceRow(Op.EVENT_DONE, pending.pop(address), 0, 0, 0))
            seen.add(address)
            live[address] = num_allocations
            rows.append(ReferenceRow(Op.ALLOCATE, num_allocations, event["size"], stream_of(event), address))
            num_allocations += 1
        elif action == "free_completed" and address in pending:
            rows.append(ReferenceRow(Op.EVENT_DONE, pending.pop(address), 0, 0, 0))
        elif action in ("free_requested", "free_completed"):
            if address not in live:
                if address in seen:
                    continue
                live[address] = ("carried", len(carried))
                carried.append((address, event["size"], stream_of(event)))
            seen.add(address)
            id = live.pop(address)
            if action == "free_requested" and has_completions and not completes(number + 1):
                rows.append(ReferenceRow(Op.RECORD_STREAM, id, 0, UNKNOWN_STREAM, 0))
                pending[address] = id
            rows.append(ReferenceRow(Op.FREE, id, 0, 0, 0))
        elif action == "oom":
            rows.append(ReferenceRow(Op.ALLOCATE, num_allocations, event["size"], stream_of(event), 0))
            rows.append(ReferenceRow(Op.FREE, num_allocations, 0, 0, 0))
            num_allocations += 1
    for segment in segments:
        at = segment["address"]
        for block in segment["blocks"]:
            begin = block.get("address", at)
            at = begin + block["size"]
            if block["state"] != "inactive" and begin not in live and begin not in pending and begin not in seen:
                live[begin] = ("carried", len(carried))
                carried.append((begin, block.get("requested_size", block["size"]), stream_of(segment)))
    order = sorted(range(len(carried)), key=lambda number: carried[number][0])
    rank = {number: place for place, number in enumerate(order)}
    first = [
        ReferenceRow(Op.ALLOCATE, place, carried[number][1], carried[number][2], carried[number][0])
        for place, number in enumerate(order)
    ]
    later = [row._replace(id=rank[row.id[1]] if isinstance(row.id, tuple) else row.id + len(carried)) for row in rows]
    return first + later
