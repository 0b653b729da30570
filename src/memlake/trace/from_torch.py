"""Makes a trace of a PyTorch memory snapshot.

A snapshot has a ring buffer of the newest events, and the state at the end. An allocation from before the first event
appears only in a later free, or in the state at the end. The reader makes such allocations the first rows of the trace.

If a free is not completed at once, another stream used the block. The snapshot does not say which stream, so the trace
names a stream that no other row uses.

A request for which PyTorch had no memory is a row as well, and is freed by the next row.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.errors import ConfigError
from memlake.trace.accelerator import accelerator_of
from memlake.trace.building import build
from memlake.trace.columns import read_only
from memlake.trace.history_of_snapshot import free_in_pools, history_of, pools_of
from memlake.trace.initial_layout import Allocations, Carried, initial_segments
from memlake.trace.operations import Op
from memlake.trace.recorded import Recorded, RecordedEvent
from memlake.trace.shortages_of_snapshot import shortages_of
from memlake.trace.snapshot import LARGEST_ADDRESS, Fields, read_raw_snapshot, tag_of_frames
from memlake.trace.streams import StreamNumbers

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from memlake.trace.snapshot import DeviceRecord, Snapshot
    from memlake.trace.source import Source
    from memlake.trace.trace import Trace

__all__ = ["read_snapshot"]

SEGMENT_EVENTS = frozenset({"segment_alloc", "segment_free", "segment_map", "segment_unmap"})
# The first provisional id of allocations that are live when the record begins; the ids of the others begin at 0.
CARRIED = 2**63


def read_snapshot(source: Source, device: int | None) -> Trace:
    """Reads a snapshot and makes a trace of one of its devices.

    Raises:
        TraceError: if the file is no snapshot, or is malicious or empty.
        ConfigError: if the snapshot has no such device.
    """
    snapshot = read_raw_snapshot(source)
    if not snapshot.devices:
        hint = "call torch.cuda.memory._record_memory_history() before the program allocates"
        raise source.error("the snapshot has no segments and no events", hint=hint)
    chosen = _choose(snapshot, device)
    return _Import(source, snapshot, chosen, "by the caller" if device is not None else "it has most events").trace()


def _choose(snapshot: Snapshot, device: int | None) -> int:
    devices = snapshot.devices
    if device is None:
        return max(sorted(devices), key=lambda number: (len(devices[number].events), len(devices[number].segments)))
    if device not in devices:
        known = ", ".join(str(number) for number in sorted(devices)[:20])
        raise ConfigError(f"the snapshot says nothing of device {device}; it knows: {known}")
    return device


@dataclass
class _Initial:
    """An allocation that is live when the record begins."""

    address: int
    requested: int
    stream: int
    tag: str
    nbytes: int | None = None


class _Import:
    """Reads the events of one device once, and puts the allocations that must precede them first."""

    def __init__(self, source: Source, snapshot: Snapshot, device: int, why: str) -> None:
        self._source = source
        self._snapshot = snapshot
        self._device = device
        self._why = why
        self._record: DeviceRecord = snapshot.devices[device]
        self._op, self._id, self._nbytes = array("B"), array("Q"), array("Q")
        self._stream, self._time, self._address = array("Q"), array("q"), array("Q")
        self._tag = array("L")
        self._tags: dict[str, int] = {"": 0}
        self._now: int | None = None
        self._live: dict[int, int] = {}
        """The provisional id of the live allocation at each address."""
        self._pending: dict[int, int] = {}
        """The provisional id of the allocation at each address that is freed, but that a stream may still use."""
        self._seen: set[int] = set()
        """Addresses of earlier events: an allocation from before the record can no longer be live there."""
        self._initial: list[_Initial] = []
        self._num_allocations = 0
        self._events: list[RecordedEvent] = []
        self._has_lost_events = False
        """Whether a block was allocated while PyTorch recorded, and its event is missing."""
        self._counts = {"implied_frees": 0, "unmatched_frees": 0}
        self._ignored: dict[str, int] = {}
        self._unknown_stream: int | None = None

    def trace(self) -> Trace:
        """Returns the trace of the device."""
        events = self._record.events
        # The type is checked before a value is hashed: hashing nested tuples of a malicious file may not end.
        self._has_completions = any(type(event) is dict and event.get("action") == "free_completed" for event in events)
        has_times = bool(events) and all(type(event) is dict and type(event.get("time_us")) is int for event in events)
        for number, raw in enumerate(events):
            self._read(Fields(self._source, raw, f"device_traces[{self._device}]", number), number, has_times)
        for segment in self._record.segments:
            for block in segment.blocks:
                if block.state == "free" or block.address in self._live or block.address in self._pending:
                    continue
                if block.address not in self._seen:
                    # No event names the block, so it was live during the whole record.
                    self._carry(block.address, block.requested, segment.stream, block.tag).nbytes = block.nbytes
                    # PyTorch keeps the stack of an allocation only if it recorded the allocation.
                    self._has_lost_events = self._has_lost_events or bool(block.tag)
        return self._build(has_times)

    def _read(self, fields: Fields, number: int, has_times: bool) -> None:
        action = fields.text("action")
        self._now = fields.whole("time_us", 2**63 - 1) if has_times else None
        if action == "alloc":
            self._allocate(fields)
        elif action in ("free_requested", "free_completed"):
            self._free(fields, action, number)
        elif action in SEGMENT_EVENTS or action in ("oom", "snapshot"):
            free = fields.whole("device_free", LARGEST_ADDRESS, 0) if action == "oom" else None
            address = fields.whole("addr", LARGEST_ADDRESS, 0)
            nbytes = fields.size("size", 0)
            self._events.append(RecordedEvent(len(self._op), action, address, nbytes, fields.stream(), self._now, free))
            if action == "oom":
                self._refuse(fields, nbytes)
        else:
            self._ignored[action[:100]] = self._ignored.get(action[:100], 0) + 1

    def _allocate(self, fields: Fields) -> None:
        address = fields.whole("addr", LARGEST_ADDRESS)
        if address in self._live:
            # Two live allocations cannot have one address, so the event of the free is missing from the record.
            self._add(Op.FREE, self._live.pop(address))
            self._counts["implied_frees"] += 1
        if address in self._pending:
            self._add(Op.EVENT_DONE, self._pending.pop(address))
        self._seen.add(address)
        self._live[address] = self._num_allocations
        tag = self._tags.setdefault(tag_of_frames(fields.get("frames")), len(self._tags))
        self._add(Op.ALLOCATE, self._num_allocations, fields.size("size"), fields.stream(), address, tag)
        self._num_allocations += 1

    def _refuse(self, fields: Fields, nbytes: int) -> None:
        """Adds the request for which PyTorch had no memory. No later event frees it, so the next row does."""
        tag = self._tags.setdefault(tag_of_frames(fields.get("frames")), len(self._tags))
        self._add(Op.ALLOCATE, self._num_allocations, nbytes, fields.stream(), 0, tag)
        self._add(Op.FREE, self._num_allocations)
        self._num_allocations += 1

    def _free(self, fields: Fields, action: str, number: int) -> None:
        address = fields.whole("addr", LARGEST_ADDRESS)
        if action == "free_completed" and address in self._pending:
            self._add(Op.EVENT_DONE, self._pending.pop(address))
            return
        if address not in self._live:
            if address in self._seen:
                if not self._is_completion(number, address):
                    self._counts["unmatched_frees"] += 1
                return
            self._carry(address, fields.size("size"), fields.stream(), "")
        self._seen.add(address)
        id = self._live.pop(address)
        if action == "free_requested" and self._has_completions and not self._is_completion(number + 1, address):
            # The block waits for a stream that the snapshot does not name.
            self._unknown_stream = LARGEST_ADDRESS
            self._add(Op.RECORD_STREAM, id, 0, LARGEST_ADDRESS)
            self._pending[address] = id
        self._add(Op.FREE, id)

    def _is_completion(self, number: int, address: int) -> bool:
        """Returns True if this event completes the free at this address that the previous event requested."""
        events = self._record.events
        if not 0 < number < len(events):
            return False
        before, event = events[number - 1], events[number]
        return (
            type(event) is dict
            and event.get("action") == "free_completed"
            and before.get("action") == "free_requested"
            and event.get("addr") == before.get("addr") == address
        )

    def _carry(self, address: int, requested: int, stream: int, tag: str) -> _Initial:
        self._live[address] = CARRIED + len(self._initial)
        initial = _Initial(address, requested, stream, tag)
        self._initial.append(initial)
        return initial

    def _add(self, op: Op, id: int, nbytes: int = 0, stream: int = 0, address: int = 0, tag: int = 0) -> None:
        self._op.append(op)
        self._id.append(id)
        self._nbytes.append(nbytes)
        self._stream.append(stream)
        self._time.append(self._now or 0)
        self._address.append(address)
        self._tag.append(tag)

    def _build(self, has_times: bool) -> Trace:
        carried = sorted(range(len(self._initial)), key=lambda number: self._initial[number].address)
        shift = len(carried)
        rank = np.empty(shift, np.uint64)
        rank[carried] = np.arange(shift, dtype=np.uint64)
        initial = [self._initial[number] for number in carried]
        tags = [self._tags.setdefault(one.tag, len(self._tags)) for one in initial]
        segments = self._record.segments
        handles = {one.stream for one in initial} | set(self._stream)
        handles |= {event.stream for event in self._events} | {segment.stream for segment in segments}
        streams = StreamNumbers(handles)
        ids = np.array(self._id, np.uint64)
        is_carried = ids >= CARRIED
        ids[~is_carried] += np.uint64(shift)
        ids[is_carried] = rank[ids[is_carried] - np.uint64(CARRIED)]

        def final_id(address: int) -> int | None:
            id = self._live.get(address, self._pending.get(address))
            return None if id is None else int(rank[id - CARRIED]) if id >= CARRIED else id + shift

        recorded = self._recorded(initial, ids, streams, final_id)
        first_time = self._record.events[0]["time_us"] if has_times else 0
        op = _joined([Op.ALLOCATE] * shift, self._op, np.uint8)
        all_ids = np.concatenate([np.arange(shift, dtype=np.uint64), ids])
        nbytes = _joined([one.requested for one in initial], self._nbytes, np.uint64)
        return build(
            self._source,
            lambda row: f"row {row} (counting from 0) of device {self._device}",
            op=op,
            id=all_ids,
            bytes=nbytes,
            stream=streams.of_all(_joined([one.stream for one in initial], self._stream, np.uint64)),
            tag=_joined(tags, self._tag, np.uint32),
            time=_joined([first_time] * shift, self._time, np.int64) if has_times else None,
            tags=list(self._tags),
            metadata=self._metadata(streams, shift, recorded)
            | {"shortages": [one.to_json() for one in shortages_of(recorded, op, all_ids, nbytes)]},
            recorded=recorded,
        )

    def _recorded(
        self,
        initial: list[_Initial],
        ids: npt.NDArray[np.uint64],
        streams: StreamNumbers,
        final_id: Callable[[int], int | None],
    ) -> Recorded:
        shift, op = len(initial), np.array(self._op, np.uint8)
        addresses = _joined([one.address for one in initial], self._address, np.uint64)
        freed = np.full(shift, len(addresses))
        frees = np.flatnonzero((op == Op.FREE) & (ids < shift))
        freed[ids[frees]] = frees + shift
        carried = [
            Carried(id, one.address, one.requested, one.nbytes, int(freed[id])) for id, one in enumerate(initial)
        ]
        rows = np.flatnonzero(op == Op.ALLOCATE)
        order = np.argsort(addresses[rows + shift], kind="stable")
        later = Allocations(addresses[rows + shift][order], (rows + shift)[order])
        events = tuple(replace(event, row=event.row + shift, stream=streams.of(event.stream)) for event in self._events)
        final = tuple(segment.recorded(streams, final_id) for segment in self._record.segments)
        before = initial_segments(final, events, carried, later)
        is_complete = not before and not initial and len(rows) > 0
        return Recorded(read_only(addresses), events, before, final, is_complete)

    def _metadata(self, streams: StreamNumbers, num_carried: int, recorded: Recorded) -> dict[str, Any]:
        devices = self._snapshot.devices
        settings = self._snapshot.settings
        segments = self._record.segments
        is_mapped = any(event.kind == "segment_map" for event in self._events)
        history = history_of(recorded, self._record.events, settings, self._device, self._has_lost_events)
        return {
            "source": "PyTorch snapshot",
            "device": self._device,
            "device_chosen": self._why,
            "devices": {str(number): len(devices[number].events) for number in sorted(devices)[:100]},
            "held_on_devices": {
                str(number): sum(segment.nbytes for segment in devices[number].segments)
                for number in sorted(devices)[:100]
            },
            "streams": streams.handles,
            "unknown_stream": None if self._unknown_stream is None else streams.of(self._unknown_stream),
            "is_complete": recorded.is_complete,
            "history": history.to_json(),
            "private_pools": pools_of(segments),
            "free_in_private_pools": free_in_pools(segments),
            "torch": self._snapshot.versions.to_json(),
            "accelerator": accelerator_of(segments, settings),
            "is_expandable": is_mapped or any(segment.is_expandable for segment in segments),
            "num_carried": num_carried,
            "ignored_events": dict(list(self._ignored.items())[:100]),
            "allocator_settings": settings,
            **self._counts,
        }


def _joined(initial: list[int], later: array[int], dtype: type[np.integer[Any]]) -> npt.NDArray[Any]:
    return np.concatenate([np.array(initial, dtype), np.asarray(later, dtype)])
