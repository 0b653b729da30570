"""A PyTorch memory snapshot as plain data. The reader checks the type and the range of every field.

It reads all formats that PyTorch has written: the current dict; the dict of torch 2.0, whose blocks have a ``history``
and no address; and a bare list of segments. A snapshot may have events, or only the state at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memlake.trace.failure import shorten
from memlake.trace.recorded import RecordedBlock, RecordedSegment
from memlake.trace.streams import plain_stream
from memlake.trace.torch_version import TorchVersions
from memlake.trace.unpickling import unpickle
from memlake.units import LARGEST_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlake.trace.source import Source
    from memlake.trace.streams import StreamNumbers

__all__ = ["Block", "DeviceRecord", "Fields", "Segment", "Snapshot", "read_raw_snapshot", "tag_of_frames"]

LARGEST_ADDRESS = 2**64 - 1
# The size of a small segment in all versions of PyTorch: kSmallBuffer in c10/core/AllocatorConfig.h.
SMALL_SEGMENT = 2 * 1024**2
NO_SNAPSHOT = "is it a snapshot of torch.cuda.memory._dump_snapshot()?"
STATES = {
    "active_allocated": "live",
    "active_pending_free": "pending",
    "active_awaiting_free": "pending",
    "inactive": "free",
}


@dataclass(frozen=True)
class Block:
    """A block at the end of the record."""

    address: int
    nbytes: int
    requested: int
    state: str
    tag: str


@dataclass(frozen=True)
class Segment:
    """A segment at the end of the record; the stream is a handle."""

    address: int
    nbytes: int
    stream: int
    kind: str
    is_expandable: bool
    pool: tuple[int, int]
    blocks: tuple[Block, ...]

    def recorded(self, streams: StreamNumbers, id_at: Callable[[int], int | None]) -> RecordedSegment:
        """Returns the segment with the stream's number, and with the trace's ids of its allocations."""
        blocks = (
            RecordedBlock(
                block.address,
                block.nbytes,
                block.requested,
                block.state,
                None if block.state == "free" else id_at(block.address),
            )
            for block in self.blocks
        )
        stream = streams.of(self.stream)
        return RecordedSegment(
            self.address, self.nbytes, stream, self.kind, self.is_expandable, self.pool, tuple(blocks)
        )


@dataclass
class DeviceRecord:
    """The segments and events of one device. The events are not checked yet; their reader checks each of them."""

    segments: list[Segment] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Snapshot:
    """A whole snapshot, and the versions of PyTorch that may have written it."""

    devices: dict[int, DeviceRecord]
    settings: dict[str, Any]
    versions: TorchVersions


class Fields:
    """The fields of one dict of the snapshot, and its place in the snapshot for messages."""

    def __init__(self, source: Source, raw: Any, place: str, index: int | None = None) -> None:
        self._source = source
        self._raw = raw
        # The text of the place is formatted only for an error, because there is one object per event.
        self._place = place
        self._index = index
        if type(raw) is not dict:
            raise self.error(f"{shorten_type(raw)} stands where a dict should")

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
        return plain_stream(self.whole("stream", LARGEST_ADDRESS, 0, smallest=-(2**63)) % 2**64)

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

    def get(self, name: str) -> Any:
        """The raw value, not checked; None if the field is missing."""
        return self._raw.get(name)

    def error(self, reason: str) -> Exception:
        """Returns the error for a wrong field of this dict."""
        place = self._place if self._index is None else f"{self._place}[{self._index}]"
        return self._source.error(reason, place, NO_SNAPSHOT)


def shorten_type(value: Any) -> str:
    """Returns the type of a value for a message."""
    return f"a value of type {type(value).__name__}"


def _show(value: Any) -> str:
    # The repr of a container may be as large as the file.
    return shorten(value) if isinstance(value, (int, float, str, bytes, type(None))) else shorten_type(value)


def read_raw_snapshot(source: Source) -> Snapshot:
    """Unpickles a snapshot and sorts it by device.

    Raises:
        TraceError: if it is not plain data, or not a snapshot.
    """
    raw = unpickle(source)
    if type(raw) is list:
        raw = {"segments": raw}
    top = Fields(source, raw, "top level")
    if "segments" not in raw and "device_traces" not in raw:
        raise source.error("the pickle has neither segments nor device_traces", "top level", NO_SNAPSHOT)
    devices: dict[int, DeviceRecord] = {}
    for number, segment in enumerate(top.items("segments")):
        fields = Fields(source, segment, "segments", number)
        device = devices.setdefault(fields.whole("device", 2**31 - 1, 0), DeviceRecord())
        device.segments.append(_segment(source, fields, number))
    for number, events in enumerate(top.items("device_traces")):
        if type(events) is not list:
            raise source.error(
                f"{shorten_type(events)} stands where a list should", f"device_traces[{number}]", NO_SNAPSHOT
            )
        if events:
            devices.setdefault(number, DeviceRecord()).events = events
    versions = TorchVersions.of_snapshot(raw, _has_block_history(raw))
    return Snapshot(devices, _settings(raw.get("allocator_settings")), versions)


def _has_block_history(raw: dict[str, Any]) -> bool:
    """Whether the blocks are those of torch 2.0. All blocks of a snapshot have the same keys."""
    blocks: list[Any] = next((segment["blocks"] for segment in raw.get("segments") or () if segment.get("blocks")), [])
    return bool(blocks) and "history" in blocks[0]


def _segment(source: Source, fields: Fields, number: int) -> Segment:
    address = fields.whole("address", LARGEST_ADDRESS)
    nbytes = fields.size("total_size")
    kind = fields.text("segment_type", "small" if nbytes <= SMALL_SEGMENT else "large")
    pool = fields.get("segment_pool_id")
    is_pool = type(pool) in (tuple, list) and len(pool) == 2 and all(type(part) is int for part in pool)
    blocks = []
    # Blocks of torch 2.0 have no address. They tile their segment, so each begins where the previous one ends.
    expected = address
    for place, raw in enumerate(fields.items("blocks")):
        block = _block(Fields(source, raw, f"segments[{number}].blocks", place), expected)
        blocks.append(block)
        expected = (block.address + block.nbytes) % 2**64
    return Segment(
        address,
        nbytes,
        fields.stream(),
        "small" if kind == "small" else "large",
        fields.get("is_expandable") is True,
        (pool[0], pool[1]) if is_pool else (0, 0),
        tuple(blocks),
    )


def _block(fields: Fields, expected: int) -> Block:
    nbytes = fields.size("size")
    state = STATES.get(fields.text("state"))
    if state is None:
        raise fields.error(f"state {shorten(fields.text('state'))} is not known")
    requested, frames = nbytes, fields.get("frames")
    history = fields.get("history")
    if type(history) is list and history and type(history[0]) is dict:
        requested, frames = history[0].get("real_size", nbytes), history[0].get("frames")
        requested = requested if type(requested) is int and 0 <= requested <= nbytes else nbytes
    # PyTorch keeps the size of the last request in a free block.
    requested = fields.size("requested_size", requested) if state != "free" else 0
    return Block(fields.whole("address", LARGEST_ADDRESS, expected), nbytes, requested, state, tag_of_frames(frames))


def tag_of_frames(frames: Any) -> str:
    """Returns the innermost Python frame, the only one that `unpickle` keeps, as ``file.py:12 function``, or ""."""
    if type(frames) is not list or not frames or type(frames[0]) is not dict:
        return ""
    frame = frames[0]
    filename, line, name = frame.get("filename"), frame.get("line"), frame.get("name")
    if type(filename) is not str or type(line) is not int or type(name) is not str:
        return ""
    # Folder names are private to the user, so they are left out. Long names are cut, because the tag is a label.
    short = filename.replace("\\", "/").rpartition("/")[2]
    return f"{short[:100]}:{line} {name[:100]}".strip()


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
