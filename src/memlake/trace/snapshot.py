"""A PyTorch memory snapshot: its segments as columns, and its events by device.

It reads all formats that PyTorch has written: the current dict; the dict of torch 2.0, whose blocks have a ``history``
and no address; and a bare list of segments. A snapshot may have events, or only the state at the end.

The core (core/snapshots/) checks the type and the range of every field. This module has the words for what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake import _native
from memlake.trace.context import Annotation
from memlake.trace.pickle_refusal import explain_memory
from memlake.trace.torch_version import TorchVersions
from memlake.trace.unpickling import unpickle
from memlake.units import LARGEST_SIZE
from memlake.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from memlake.trace.failure import TraceFileError
    from memlake.trace.source import Source

__all__ = ["DeviceRecord", "Snapshot", "read_events", "read_raw_snapshot"]

LARGEST_ADDRESS = 2**64 - 1
# The size of a small segment in all versions of PyTorch: kSmallBuffer in c10/core/AllocatorConfig.h.
SMALL_SEGMENT = 2 * 1024**2
# More devices than a machine has. A malicious file may list millions.
MOST_DEVICES = 4096
NO_SNAPSHOT = "is it a snapshot of torch.cuda.memory._dump_snapshot()?"
STATES = ("active_allocated", "active_pending_free", "active_awaiting_free", "inactive")


@dataclass
class DeviceRecord:
    """What a snapshot has of one device: how many segments and events, and the events themselves if there are any."""

    num_segments: int = 0
    num_events: int = 0
    events: _native.PickleNode | None = None


@dataclass(frozen=True)
class Snapshot:
    """A whole snapshot.

    Attributes:
        reader: reads the events of a device, and has the stacks of everything that was read.
        segments: the segments of all devices.
        columns: the same as arrays.
        devices: what there is of each device.
        settings: the allocator's settings.
        annotations: the named parts of the program.
        others: the other entries of the snapshot that are scalars, or dicts of scalars.
        versions: the versions of PyTorch that may have written the snapshot.
    """

    reader: _native.SnapshotReader
    segments: _native.SegmentColumns
    columns: dict[str, npt.NDArray[Any]]
    devices: dict[int, DeviceRecord]
    settings: dict[str, Any]
    annotations: tuple[Annotation, ...]
    others: dict[str, Any]
    versions: TorchVersions


class Fields:
    """The fields of one dict of the snapshot, and its place in the snapshot for messages."""

    def __init__(self, source: Source, raw: Any, place: str, index: int | None = None) -> None:
        self._source = source
        self._raw = raw
        self._place = place
        self._index = index
        if type(raw) is not dict:
            raise self.error(f"{described_type(raw)} stands where a dict should")

    def whole(self, name: str, largest: int, default: int | None = None, *, smallest: int = 0) -> int:
        """A whole number within limits."""
        value = self._raw.get(name, default)
        # type() instead of isinstance: a bool is an int for isinstance.
        if type(value) is not int or not smallest <= value <= largest:
            raise self.error(f"{name} must be a whole number from {smallest} to {largest}, not {_show(value)}")
        return value

    def size(self, name: str, default: int | None = None) -> int:
        """A number of bytes."""
        return self.whole(name, LARGEST_SIZE, default)

    def stream(self) -> int:
        """The stream's handle. PyTorch writes it as a signed number."""
        return self.whole("stream", LARGEST_ADDRESS, 0, smallest=-(2**63))

    def text(self, name: str, default: str | None = None) -> str:
        """A string."""
        value = self._raw.get(name, default)
        if type(value) is not str:
            raise self.error(f"{name} must be a string, not {_show(value)}")
        return value

    def items(self, name: str) -> list[Any]:
        """A list; empty if the field is missing."""
        value = self._raw.get(name)
        if value is None:
            return []
        if type(value) is not list:
            raise self.error(f"{name} must be a list, not {_show(value)}")
        return value

    def error(self, reason: str) -> TraceFileError:
        """Returns the error for a wrong field of this dict."""
        place = self._place if self._index is None else f"{self._place}[{self._index}]"
        return self._source.error(reason, place, NO_SNAPSHOT)


def described_type(value: Any) -> str:
    """Returns the type of a value for a message."""
    return f"a value of type {type(value).__name__}"


def _show(value: Any) -> str:
    # The repr of a container may be as large as the file.
    return quoted(value) if isinstance(value, (int, float, str, bytes, type(None))) else described_type(value)


def read_raw_snapshot(source: Source, progress: Callable[[int, int], object] | None = None) -> Snapshot:
    """Reads a snapshot and sorts it by device.

    Raises:
        TraceError: if it is not plain data, or not a snapshot.
    """
    root = unpickle(source, progress)
    try:
        return _sort(source, root)
    except MemoryError:
        raise explain_memory(source) from None


def _sort(source: Source, root: _native.PickleNode) -> Snapshot:
    reader = _native.SnapshotReader(root)
    top = {key: root.get(key) for key in root.keys()[:1000]} if root.kind == "dict" else {"segments": root}
    if root.kind not in ("dict", "list"):
        Fields(source, root.shallow(), "top level")
    if "segments" not in top and "device_traces" not in top:
        raise source.error("the pickle has neither segments nor device_traces", "top level", NO_SNAPSHOT)
    segments = _read_segments(source, reader, _list(source, top.pop("segments", None), "segments"))
    columns = segments.columns()
    devices: dict[int, DeviceRecord] = {}
    for number in columns["device"].tolist():
        devices.setdefault(number, DeviceRecord()).num_segments += 1
        _check_devices(source, devices)
    for number, events in enumerate(_items(_list(source, top.pop("device_traces", None), "device_traces"))):
        if events.kind != "list":
            what = described_type(events.shallow())
            raise source.error(f"{what} stands where a list should", f"device_traces[{number}]", NO_SNAPSHOT)
        if len(events):
            record = devices.setdefault(number, DeviceRecord())
            record.events, record.num_events = events, len(events)
            _check_devices(source, devices)
    settings = top.pop("allocator_settings", None)
    annotations = top.pop("external_annotations", None)
    return Snapshot(
        reader,
        segments,
        columns,
        devices,
        _settings(settings.plain() if settings else None),
        tuple(_annotations(annotations.plain() if annotations else None)),
        _settings({name: node.plain() for name, node in top.items() if node is not None and len(node) <= 100}),
        _versions(root, columns["first_block"]),
    )


def _versions(root: _native.PickleNode, first_block: npt.NDArray[Any]) -> TorchVersions:
    """Infers the versions of PyTorch from the keys of the snapshot, of its first event and of its first block."""
    if root.kind != "dict":
        root_keys: dict[str, Any] = {}
        segments: _native.PickleNode | None = root
    else:
        root_keys, segments = dict.fromkeys(root.keys()), root.get("segments")
    traces = root.get("device_traces")
    if traces is not None:
        events = next((one for one in _items(traces) if one.kind == "list" and len(one)), None)
        root_keys["device_traces"] = [] if events is None else [[events.item(0).shallow()]]
    with_blocks = np.flatnonzero(np.diff(first_block))
    has_history = False
    if segments is not None and len(with_blocks):
        # All blocks of a snapshot have the same keys.
        blocks = segments.item(int(with_blocks[0])).get("blocks")
        has_history = blocks is not None and blocks.item(0).get("history") is not None
    return TorchVersions.of_snapshot(root_keys, has_history)


def read_events(source: Source, snapshot: Snapshot, device: int) -> _native.DeviceEvents:
    """Reads the events of one device.

    Raises:
        TraceError: for the first event that is wrong.
    """
    node = snapshot.devices[device].events
    found = snapshot.reader.read_events(node, snapshot.segments, device)
    if isinstance(found, _native.PickleFault):
        raise explain_memory(source)
    if isinstance(found, int):
        assert node is not None
        raise _wrong_event(Fields(source, node.item(found).shallow(), f"device_traces[{device}]", found))
    return found


def _list(source: Source, node: _native.PickleNode | None, name: str) -> _native.PickleNode | None:
    """Returns the list of a field; None if the field is missing or None."""
    if node is None or node.kind == "list":
        return node
    Fields(source, {name: node.shallow()}, "top level").items(name)
    return None


def _items(node: _native.PickleNode | None) -> Iterator[_native.PickleNode]:
    for number in range(0 if node is None else len(node)):
        assert node is not None
        yield node.item(number)


def _check_devices(source: Source, devices: dict[int, DeviceRecord]) -> None:
    if len(devices) > MOST_DEVICES:
        raise source.error(f"names more than {MOST_DEVICES} devices, which no machine has", "top level", NO_SNAPSHOT)


def _read_segments(
    source: Source, reader: _native.SnapshotReader, node: _native.PickleNode | None
) -> _native.SegmentColumns:
    found = reader.read_segments(node)
    if isinstance(found, _native.PickleFault):
        raise explain_memory(source)
    if isinstance(found, tuple):
        number, block = found
        assert node is not None
        wrong = node.item(number)
        if block is None:
            raise _wrong_segment(Fields(source, wrong.shallow(), "segments", number))
        blocks = wrong.get("blocks")
        assert blocks is not None
        raise _wrong_block(Fields(source, blocks.item(block).shallow(), f"segments[{number}].blocks", block))
    return found


def _wrong_segment(fields: Fields) -> TraceFileError:
    """Raises the error for the first wrong field, in the order in which the core checks them."""
    fields.whole("device", 2**31 - 1, 0)
    fields.whole("address", LARGEST_ADDRESS)
    fields.size("total_size")
    fields.text("segment_type", "")
    fields.items("blocks")
    fields.stream()
    return fields.error("is no segment")


def _wrong_block(fields: Fields) -> TraceFileError:
    fields.size("size")
    state = fields.text("state")
    if state not in STATES:
        return fields.error(f"state {quoted(state)} is not known")
    fields.size("requested_size", 0)
    fields.whole("address", LARGEST_ADDRESS, 0)
    return fields.error("is no block")


def _wrong_event(fields: Fields) -> TraceFileError:
    action = fields.text("action")
    if action in ("alloc", "free_requested", "free_completed"):
        fields.whole("addr", LARGEST_ADDRESS)
        fields.size("size")
    else:
        fields.whole("device_free", LARGEST_ADDRESS, 0)
        fields.whole("addr", LARGEST_ADDRESS, 0)
        fields.size("size", 0)
    fields.stream()
    fields.whole("time_us", LARGEST_SIZE)
    return fields.error("is no event")


def _annotations(raw: Any) -> Iterator[Annotation]:
    """Returns the annotations that have all fields; nothing can be done with others."""
    for entry in raw if type(raw) is list else ():
        if type(entry) is not dict:
            continue
        name, stage, device, time = (entry.get(key) for key in ("name", "stage", "device", "time_us"))
        if type(name) is not str or type(stage) is not str or type(device) is not int or type(time) is not int:
            continue
        if 0 <= device < 2**31 and 0 <= time <= LARGEST_SIZE:
            yield Annotation(name[:1000], stage[:100], device, time)


def _settings(raw: Any) -> dict[str, Any]:
    """Returns the allocator's settings that are scalars, or lists or dicts of scalars; all known settings are."""
    if type(raw) is not dict:
        return {}
    plain: dict[str, Any] = {}
    for name, value in list(raw.items())[:100]:
        if type(value) is dict:
            plain[name[:100]] = {key[:100]: _scalar(inner) for key, inner in list(value.items())[:100]}
        else:
            plain[name[:100]] = _scalar(value)
    return plain


def _scalar(value: Any) -> Any:
    if type(value) is list:
        # A flag per device; a device has one entry.
        return [one for one in value[:100] if type(one) in (int, bool)]
    if type(value) is float:
        return value if abs(value) < float("inf") else None
    if type(value) is str:
        return value[:1000]
    return value if type(value) in (int, bool) else None
