"""Makes a trace of a PyTorch memory snapshot.

A snapshot has a ring buffer of the newest events, and the state at the end. An allocation from before the first event
appears only in a later free, or in the state at the end. The reader makes such allocations the first rows of the trace.

If a free is not completed at once, another stream used the block. The snapshot does not say which stream, so the trace
names a stream that no other row uses.

A request for which PyTorch had no memory is a row as well, and is freed by the next row.

The core (core/snapshots/) makes events rows. This module numbers the streams, and makes the record and the metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from memlake import _native
from memlake.errors import ConfigError
from memlake.trace.accelerator import accelerator_of
from memlake.trace.building import build
from memlake.trace.columns import read_only
from memlake.trace.context import Context, Label
from memlake.trace.distinct import distinct
from memlake.trace.history_of_snapshot import EventSummary, free_in_pools, history_of, pools_of
from memlake.trace.initial_layout import Allocations, Carried, initial_segments
from memlake.trace.operations import Op
from memlake.trace.recorded import Recorded, RecordedBlock, RecordedEvent, RecordedSegment
from memlake.trace.shortages_of_snapshot import shortages_of
from memlake.trace.snapshot import LARGEST_ADDRESS, read_events, read_raw_snapshot
from memlake.trace.stacks import Stacks
from memlake.trace.streams import StreamNumbers

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from memlake.trace.snapshot import Snapshot
    from memlake.trace.source import Source
    from memlake.trace.stacks import Frame
    from memlake.trace.trace import Trace

__all__ = ["read_snapshot"]

# The states of blocks in the order of the core's numbers.
STATES = ("live", "pending", "free")


def read_snapshot(source: Source, device: int | None, progress: Callable[[int, int], object] | None = None) -> Trace:
    """Reads a snapshot and makes a trace of one of its devices.

    Raises:
        TraceError: if the file is no snapshot, or is malicious or empty.
        ConfigError: if the snapshot has no such device.
    """
    snapshot = read_raw_snapshot(source, progress)
    if not snapshot.devices:
        hint = "call torch.cuda.memory._record_memory_history() before the program allocates"
        raise source.error("the snapshot has no segments and no events", hint=hint)
    chosen = _choose(snapshot, device)
    return _Import(source, snapshot, chosen, "by the caller" if device is not None else "it has most events").trace()


def _choose(snapshot: Snapshot, device: int | None) -> int:
    devices = snapshot.devices
    if device is None:
        return max(sorted(devices), key=lambda number: (devices[number].num_events, devices[number].num_segments))
    if device not in devices:
        known = ", ".join(str(number) for number in sorted(devices)[:20])
        raise ConfigError(f"the snapshot says nothing of device {device}; hint: it knows {known}")
    return device


class _Import:
    """Makes the trace of one device."""

    def __init__(self, source: Source, snapshot: Snapshot, device: int, why: str) -> None:
        self._source = source
        self._device = device
        self._why = why
        events = read_events(source, snapshot, device)
        self._rows = events.take_rows()
        self._others = events.take_others()
        self._labels = events.take_labels()
        self._counts = {"implied_frees": events.implied_frees, "unmatched_frees": events.unmatched_frees}
        self._ignored: dict[str, int] = {}
        for action, count in events.ignored:
            self._ignored[action[:100]] = self._ignored.get(action[:100], 0) + count
        self._summary = EventSummary(
            snapshot.devices[device].num_events,
            events.num_allocation_events,
            events.begins_within_a_free,
            events.has_lost_events,
        )
        self._has_times = events.has_times
        self._has_unknown_stream = events.has_unknown_stream
        self._num_carried = events.num_carried
        self._stacks = Stacks(**snapshot.reader.take_stacks())
        self._columns = snapshot.columns
        self._settings = snapshot.settings
        self._versions = snapshot.versions
        self._others_of_snapshot = snapshot.others
        self._annotations = snapshot.annotations
        self._num_events = {number: record.num_events for number, record in snapshot.devices.items()}
        self._segments = np.flatnonzero(snapshot.columns["device"] == device)
        handles = (self._rows["stream"], self._others["stream"], self._columns["stream"][self._segments])
        self._streams = StreamNumbers(distinct(np.concatenate(handles)).tolist())

    def trace(self) -> Trace:
        """Returns the trace of the device."""
        rows = self._rows
        recorded = self._recorded()
        shortages = shortages_of(recorded, rows["op"], rows["id"].astype(np.uint64), rows["nbytes"])
        tag, tags = self._tag()
        return build(
            self._source,
            lambda row: f"row {row} (counting from 0) of device {self._device}",
            op=rows["op"],
            id=rows["id"],
            bytes=rows["nbytes"],
            stream=self._streams.of_all(rows["stream"]),
            tag=tag,
            time=rows["time"] if self._has_times else None,
            tags=tags,
            metadata=self._metadata(recorded) | {"shortages": [one.to_json() for one in shortages]},
            recorded=recorded,
            context=self._context(),
        )

    def _context(self) -> Context:
        labels = {
            name: Label(read_only(number), tuple(text[:1000] for text in texts))
            for name, (number, texts) in self._labels.items()
        }
        return Context(read_only(self._rows["stack"]), self._stacks, labels, self._annotations)

    def _tag(self) -> tuple[npt.NDArray[np.uint32], list[str]]:
        """Returns the tag of each row, and all tags. The tag of an allocation is its innermost Python frame."""
        stacks = self._stacks
        is_python_file = np.array([text.endswith(".py") for text in stacks.texts], np.bool_)
        is_python = is_python_file[stacks.filename] if len(stacks.texts) else np.zeros(0, np.bool_)
        innermost = stacks.first_frames(is_python)
        stack = np.where(self._rows["op"] == Op.ALLOCATE.value, self._rows["stack"], 0)
        tags = {"": 0}
        tag_of_stack = np.zeros(len(stacks), np.uint32)
        for number in distinct(stack).tolist():
            if innermost[number] >= 0:
                text = _tag_of(stacks.frame(int(innermost[number])))
                tag_of_stack[number] = tags.setdefault(text, len(tags))
        return tag_of_stack[stack], list(tags)

    def _recorded(self) -> Recorded:
        rows, shift = self._rows, self._num_carried
        op, ids, addresses = rows["op"], rows["id"], rows["address"]
        freed = np.full(shift, len(addresses))
        frees = np.flatnonzero((op == Op.FREE.value) & (ids < shift))
        freed[ids[frees]] = frees
        carried = [
            Carried(id, address, requested, None if block < 0 else block, until)
            for id, (address, requested, block, until) in enumerate(
                zip(
                    addresses[:shift].tolist(),
                    rows["nbytes"][:shift].tolist(),
                    rows["carried_block"].tolist(),
                    freed.tolist(),
                    strict=True,
                )
            )
        ]
        allocations = np.flatnonzero(op[shift:] == Op.ALLOCATE.value) + shift
        order = np.argsort(addresses[allocations], kind="stable")
        later = Allocations(addresses[allocations][order], allocations[order])
        events, final = self._recorded_events(), self._final_segments()
        before = initial_segments(final, events, carried, later)
        is_complete = not before and not carried and len(allocations) > 0
        return Recorded(read_only(addresses), events, before, final, is_complete)

    def _recorded_events(self) -> tuple[RecordedEvent, ...]:
        others, kinds = self._others, _native.event_kinds()
        columns = (others["row"], others["kind"], others["address"], others["nbytes"])
        more = (self._streams.of_all(others["stream"]), others["time"], others["device_free"], others["stack"])
        return tuple(
            RecordedEvent(
                row,
                kinds[kind],
                address,
                nbytes,
                stream,
                time if self._has_times else None,
                free if kinds[kind] == "oom" else None,
                stack,
            )
            for row, kind, address, nbytes, stream, time, free, stack in zip(
                *(column.tolist() for column in (*columns, *more)), strict=True
            )
        )

    def _final_segments(self) -> tuple[RecordedSegment, ...]:
        columns = self._columns
        starts = columns["first_block"]
        of_device = np.repeat(columns["device"] == self._device, np.diff(starts).astype(np.int64))
        blocks = [
            RecordedBlock(address, nbytes, requested, STATES[state], None if state == 2 or id < 0 else id)
            for address, nbytes, requested, state, id in zip(
                columns["block_address"][of_device].tolist(),
                columns["block_nbytes"][of_device].tolist(),
                columns["block_requested"][of_device].tolist(),
                columns["block_state"][of_device].tolist(),
                self._rows["block_id"].tolist(),
                strict=True,
            )
        ]
        chosen = self._segments
        numbers = [columns[name][chosen].tolist() for name in ("address", "nbytes", "pool_first", "pool_second")]
        flags = [columns[name][chosen].tolist() for name in ("is_small", "is_expandable")]
        streams = self._streams.of_all(columns["stream"][chosen]).tolist()
        # The blocks of the device are in the order of its segments.
        edges = [0, *np.cumsum(np.diff(starts)[chosen]).astype(np.int64).tolist()]
        return tuple(
            RecordedSegment(
                address,
                nbytes,
                stream,
                "small" if is_small else "large",
                bool(is_expandable),
                (pool_first, pool_second),
                tuple(blocks[first:last]),
            )
            for address, nbytes, pool_first, pool_second, is_small, is_expandable, stream, first, last in zip(
                *numbers, *flags, streams, edges[:-1], edges[1:], strict=True
            )
        )

    def _metadata(self, recorded: Recorded) -> dict[str, Any]:
        segments, settings = recorded.final, self._settings
        is_mapped = any(event.kind == "segment_map" for event in recorded.events)
        history = history_of(recorded, self._summary, settings, self._device)
        metadata = {
            "source": "PyTorch snapshot",
            "device": self._device,
            "device_chosen": self._why,
            "devices": {str(number): self._num_events[number] for number in sorted(self._num_events)[:100]},
            "held_on_devices": {str(number): self._held(number) for number in sorted(self._num_events)[:100]},
            "streams": self._streams.handles,
            "unknown_stream": self._streams.of(LARGEST_ADDRESS) if self._has_unknown_stream else None,
            "is_complete": recorded.is_complete,
            "history": history.to_json(),
            "private_pools": pools_of(segments),
            "free_in_private_pools": free_in_pools(segments),
            "torch": self._versions.to_json(),
            "accelerator": accelerator_of(segments, settings),
            "is_expandable": is_mapped or any(segment.is_expandable for segment in segments),
            "num_carried": self._num_carried,
            "ignored_events": dict(list(self._ignored.items())[:100]),
            "allocator_settings": settings,
            **self._counts,
        }
        if self._others_of_snapshot:
            metadata["others"] = self._others_of_snapshot
        return metadata

    def _held(self, device: int) -> int:
        """Returns the bytes that the allocator holds on a device at the end."""
        return sum(self._columns["nbytes"][self._columns["device"] == device].tolist())


def _tag_of(frame: Frame) -> str:
    """Returns a frame as ``file.py:12 function``."""
    # Folder names are private to the user, so they are left out. Long names are cut, because the tag is a label.
    short = frame.filename.replace("\\", "/").rpartition("/")[2]
    return f"{short[:100]}:{frame.line} {frame.name[:100]}".strip()
