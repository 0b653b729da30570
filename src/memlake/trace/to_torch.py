"""Writes a trace as a PyTorch memory snapshot, for PyTorch's own viewer and for programs that read snapshots.

A trace of a snapshot has the addresses, segments and blocks of PyTorch, and they are written again. For any other trace
they are those of a replay under PyTorch's native allocator on a device with enough memory.
"""

from __future__ import annotations

import pickle
import re
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake import _native
from memlake.errors import ConfigError
from memlake.libraries import emulator_library
from memlake.policies import CachingOptions
from memlake.trace.losses import lost_metadata
from memlake.trace.operations import Op
from memlake.trace.recorded import Recorded, RecordedBlock, RecordedEvent, RecordedSegment
from memlake.trace.refused_rows import refused_rows
from memlake.trace.streams import handles_of

if TYPE_CHECKING:
    from typing import BinaryIO

    import numpy.typing as npt

    from memlake.trace.trace import Trace

__all__ = ["lost_in_snapshot", "write_snapshot"]

_STATES = {"live": "active_allocated", "pending": "active_awaiting_free", "free": "inactive"}
_SMALLEST_DEVICE = 2**40
_LARGEST_DEVICE = 2**44
_FIRST_ADDRESS = 0x7F0000000000
# More devices than a machine has; a forged file may name any number.
_MOST_DEVICES = 4096
_NEWEST = (2, 13)
# What PyTorch has written since which version.
_TIMES, _SETTINGS, _ANNOTATIONS = (2, 2), (2, 3), (2, 6)
_COMPILED, _METADATA, _POOLS = (2, 8), (2, 10), (2, 12)
_TAG = re.compile(r"(.{1,200}):(\d{1,9}) (.*)", re.DOTALL)
_POOL = re.compile(r"\((\d{1,19}), (\d{1,19})\)")
_WITHOUT_EVENT = {
    Op.STEP: "steps",
    Op.SYNCHRONIZE: "synchronisations of the device",
    Op.EMPTY_CACHE: "releases of the cache",
    Op.TRIM: "trims",
    Op.PREALLOCATE: "preallocations",
    Op.RELEASE_POOL: "releases of graph pools",
    Op.FREE_ON: "the streams of frees on other streams",
}


def lost_in_snapshot(trace: Trace) -> list[str]:
    """Returns what a snapshot cannot hold of a trace: the rest of a sentence about the file, one each."""
    lost = [f"leaves out {text}" for op, text in _WITHOUT_EVENT.items() if (trace.op == op.value).any()]
    unknown = trace.metadata.get("unknown_stream")
    if ((trace.op == Op.RECORD_STREAM.value) & (trace.stream != (-1 if unknown is None else unknown))).any():
        lost.append("leaves out which streams used a block")
    if not _has_layout(trace):
        lost.append("has the addresses of a replay under PyTorch's native allocator, because the trace has none")
        lost += lost_metadata(trace, kept=("source", "streams"))
    if trace.time is None and not (_has_layout(trace) and trace.history.kind == "state"):
        lost.append("has the numbers of rows for times, because the trace has no times")
    if trace.context is None and trace.tags:
        lost.append("has the tags of the trace as frames")
    torch = trace.settings.torch
    if torch.last == (2, 0):
        lost.append("has the form of torch 2.1, because that of 2.0 cannot be written")
    elif _has_layout(trace) and torch.first is None and torch.last is None:
        lost.append("has the form of the newest torch, because no torch writes files of the form that was read")
    return lost


def write_snapshot(trace: Trace, file: BinaryIO) -> None:
    """Writes the snapshot.

    Raises:
        ConfigError: if no device is large enough for a replay of the trace.
    """
    pickle.dump(_Snapshot(trace).whole(), file, protocol=4)


def _has_layout(trace: Trace) -> bool:
    recorded = trace.recorded
    return recorded is not None and bool(recorded.final or recorded.initial or recorded.events)


class _Snapshot:
    """The snapshot of one trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._metadata = trace.metadata
        if _has_layout(trace) and trace.metadata.get("source") == "PyTorch snapshot":
            assert trace.recorded is not None
            self._recorded = trace.recorded
            known = trace.settings.torch
            self._version = known.first or known.last or _NEWEST
        else:
            self._recorded = _replayed(trace)
            self._version = _NEWEST
        self._handles = handles_of(self._metadata, int(trace.stream.max(initial=0)))
        self._frames: dict[int, list[dict[str, Any]]] = {}
        device = self._metadata.get("device")
        self._device = device if type(device) is int and 0 <= device < _MOST_DEVICES else 0

    def whole(self) -> dict[str, Any]:
        """Returns the snapshot as PyTorch would pickle it."""
        snapshot: dict[str, Any] = {
            "segments": [self._segment(segment) for segment in self._recorded.final],
            "device_traces": [[] for _ in range(self._device)] + [self._events()],
        }
        if self._version >= _SETTINGS:
            settings = self._metadata.get("allocator_settings")
            snapshot["allocator_settings"] = settings if isinstance(settings, dict) else {}
        if self._version >= _ANNOTATIONS:
            snapshot["external_annotations"] = self._annotations()
        others = self._metadata.get("others")
        return (others if isinstance(others, dict) else {}) | snapshot

    def _events(self) -> list[dict[str, Any]]:
        trace = self._trace
        between: dict[int, list[RecordedEvent]] = defaultdict(list)
        for event in self._recorded.events:
            between[event.row].append(event)
        refused = refused_rows(trace)
        births = self._births
        done = set(trace.id[trace.op == Op.EVENT_DONE.value].tolist())
        shared = set(trace.id[trace.op == Op.RECORD_STREAM.value].tolist())
        carried = trace.num_carried
        events: list[dict[str, Any]] = []
        rows = zip(trace.op.tolist(), trace.id.tolist(), strict=True)
        for row, (op, id) in enumerate(rows):
            events += [self._between(event) for event in between.get(row, ())]
            if op == Op.ALLOCATE and (row < carried or refused[row]):
                continue
            if op == Op.ALLOCATE:
                events.append(self._event("alloc", row, row))
            elif op in (Op.FREE, Op.FREE_ON) and not refused[births[id]]:
                born = int(births[id])
                events.append(self._event("free_requested", row, born))
                if not (id in shared and id in done) and not self._is_pending(id, shared):
                    events.append(self._event("free_completed", row, born))
            elif op == Op.EVENT_DONE and id in shared:
                events.append(self._event("free_completed", row, int(births[id])))
        events += [self._between(event) for event in between.get(len(trace), ())]
        told = (self._metadata.get("devices") or {}).get(str(self._device))
        # Some programs record one event per free. A record that became longer was one of those.
        return events if type(told) is not int or len(events) <= told else _with_one_event_per_free(events)

    def _is_pending(self, id: int, shared: set[int]) -> bool:
        """Whether a freed block still waits for a stream at the end of the record."""
        return id in shared and id in self._pending

    @cached_property
    def _pending(self) -> set[int | None]:
        blocks = (block for segment in self._recorded.final for block in segment.blocks)
        return {block.id for block in blocks if block.state == "pending"}

    def _event(self, action: str, row: int, born: int) -> dict[str, Any]:
        """Returns the event of a row about the allocation that was made in the row `born`."""
        trace = self._trace
        event: dict[str, Any] = {
            "action": action,
            "addr": int(self._recorded.addresses[born]),
            "size": int(trace.bytes[born]),
            "stream": self._handle(int(trace.stream[born])),
        }
        return event | self._rest(row, None if trace.time is None else int(trace.time[row]), self._stack_of_row(row))

    def _between(self, event: RecordedEvent) -> dict[str, Any]:
        told: dict[str, Any] = {"action": event.kind, "size": event.nbytes, "stream": self._handle(event.stream)}
        if event.kind == "oom":
            told["device_free"] = event.device_free or 0
        else:
            told["addr"] = event.address
        row = min(event.row, len(self._trace) - 1)
        return told | self._rest(row, event.time, self._stack(event.stack))

    def _rest(self, row: int, time: int | None, frames: list[dict[str, Any]]) -> dict[str, Any]:
        """Returns the fields that every event has, as far as the version of PyTorch writes them."""
        rest: dict[str, Any] = {"frames": frames}
        if self._version >= _TIMES:
            rest["time_us"] = row if time is None else time
        for name, since, none in (("compile_context", _COMPILED, "N/A"), ("user_metadata", _METADATA, "")):
            if self._version >= since:
                rest[name] = self._label(name, row) or none
        if self._version >= _POOLS:
            match = _POOL.fullmatch(self._label("pool_id", row))
            rest["pool_id"] = (int(match[1]), int(match[2])) if match else (0, 0)
        if category := self._label("category", row):
            rest["category"] = category
        return rest

    def _label(self, name: str, row: int) -> str:
        context = self._trace.context
        label = None if context is None else context.labels.get(name)
        return "" if label is None else label[row]

    def _handle(self, stream: int) -> int:
        return self._handles[stream]

    def _stack_of_row(self, row: int) -> list[dict[str, Any]]:
        trace = self._trace
        if trace.context is not None:
            return self._stack(int(trace.context.stack[row]))
        tag = trace.tags[int(trace.tag[row])] if trace.tags else ""
        if not tag:
            return []
        match = _TAG.fullmatch(tag)
        filename, line, name = match.groups() if match else ("??", 0, tag)
        return [{"filename": filename, "line": int(line), "name": name}]

    def _stack(self, number: int) -> list[dict[str, Any]]:
        """Returns a stack. Equal stacks are one object, so the pickle has each of them once."""
        if self._trace.context is None:
            return []
        if number not in self._frames:
            stack = self._trace.context.stacks[number]
            self._frames[number] = [
                {"filename": frame.filename, "line": frame.line, "name": frame.name} for frame in stack
            ]
        return self._frames[number]

    def _segment(self, segment: RecordedSegment) -> dict[str, Any]:
        blocks = [self._block(block) for block in segment.blocks]
        live = sum(block.nbytes for block in segment.blocks if block.state == "live")
        return {
            "device": self._device,
            "address": segment.address,
            "total_size": segment.nbytes,
            "allocated_size": live,
            "active_size": sum(block.nbytes for block in segment.blocks if block.state != "free"),
            "requested_size": sum(block.requested for block in segment.blocks if block.state != "free"),
            "stream": self._handle(segment.stream),
            "segment_type": segment.kind,
            "segment_pool_id": segment.pool,
            "is_expandable": segment.is_expandable,
            "frames": [],
            "blocks": blocks,
        }

    def _block(self, block: RecordedBlock) -> dict[str, Any]:
        frames = [] if block.id is None else self._stack_of_row(int(self._births[block.id]))
        return {
            "address": block.address,
            "size": block.nbytes,
            "requested_size": block.requested,
            "state": _STATES[block.state],
            "frames": frames,
        }

    @cached_property
    def _births(self) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self._trace.op == Op.ALLOCATE.value)

    def _annotations(self) -> list[dict[str, Any]]:
        context = self._trace.context
        return [
            {"device": one.device, "time_us": one.time, "name": one.name, "stage": one.stage}
            for one in (() if context is None else context.annotations)
        ]


def _with_one_event_per_free(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leaves out the request of each free that is completed at once."""
    kept = []
    for event, after in zip(events, [*events[1:], {}], strict=True):
        is_pair = event["action"] == "free_requested" and after.get("action") == "free_completed"
        if not (is_pair and event["addr"] == after["addr"]):
            kept.append(event)
    return kept


def _replayed(trace: Trace) -> Recorded:
    """Returns what PyTorch's native allocator does for a trace if memory is never short."""
    capacity = max(_SMALLEST_DEVICE, 4 * trace.peak_live)
    if capacity > _LARGEST_DEVICE:
        raise ConfigError(
            f"the trace has {trace.peak_live} bytes live at once, for which no device is large enough; hint: choose "
            "another format"
        )
    outcome = _native.replay_record(
        _native.Driver.load(emulator_library()),
        CachingOptions().configuration,
        trace.op,
        trace.id,
        np.where(refused_rows(trace), np.uint64(0), trace.bytes),
        trace.stream,
        0,
        [],
        [],
        "address",
        capacity,
    )
    # The core's own addresses are beyond the whole numbers that JavaScript can hold, which PyTorch's viewer needs.
    found = np.array(outcome.addresses, np.uint64)
    lowest = min((address for _, _, address, _, _ in outcome.events), default=0)
    shift = lowest - _FIRST_ADDRESS
    events = tuple(
        RecordedEvent(row, kind, address - shift, nbytes, stream)
        for row, kind, address, nbytes, stream in outcome.events
    )
    final = []
    for begin, nbytes, stream, is_small, is_expandable, blocks in outcome.last:
        address = begin - shift
        at, placed = address, []
        for size, requested, state, id in blocks:
            placed.append(RecordedBlock(at, size, requested, state, None if id < 0 else id))
            at += size
        kind = "small" if is_small else "large"
        final.append(RecordedSegment(address, nbytes, stream, kind, is_expandable, (0, 0), tuple(placed)))
    addresses = np.where(found > 0, found - np.uint64(shift % 2**64), np.uint64(0))
    return Recorded(addresses, events, (), tuple(final), True)
