"""The ledger of the emulated driver: its objects and their origin, call counts, violations and warnings."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from memlake import _native
from memlake.emulator.graph_entries import GraphEntry, GraphExecEntry, GraphMemoryEntry, UserObjectEntry
from memlake.libraries import emulator_library
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from memlake.device.device import Device

__all__ = [
    "AllocationEntry",
    "ChunkEntry",
    "ContextEntry",
    "DeviceEntry",
    "EventEntry",
    "GraphEntry",
    "GraphExecEntry",
    "GraphMemoryEntry",
    "HostAllocationEntry",
    "Incident",
    "Ledger",
    "LibraryEntry",
    "ManagedAllocationEntry",
    "MappingEntry",
    "ModuleEntry",
    "Origin",
    "PoolAllocationEntry",
    "PoolEntry",
    "ReservationEntry",
    "StreamEntry",
    "UserObjectEntry",
    "ledger",
    "reset_ledger",
]


@dataclass(frozen=True)
class Origin:
    """The call that made an object: its sequence number, its name, the thread, and the calling code."""

    sequence: int
    call: str
    thread: int
    caller: str


@dataclass(frozen=True)
class DeviceEntry:
    """An emulated device that is open; `managed` is how much managed memory lies in its memory."""

    ordinal: int
    name: str
    total: int
    free: int
    managed: int
    backing: str
    profile: str
    streams: str
    aliasing: str
    granularity: int
    recommended: int


@dataclass(frozen=True)
class ReservationEntry:
    """A reservation of addresses; `mapped` is how many of its bytes are mapped."""

    address: int
    size: int
    mapped: int
    made_by: Origin


@dataclass(frozen=True)
class ChunkEntry:
    """Physical memory from ``cuMemCreate``; `references` is the number of releases it still needs."""

    handle: int
    size: int
    device: int
    location: str
    references: int
    mappings: int
    exported: bool
    imported: bool
    made_by: Origin


@dataclass(frozen=True)
class MappingEntry:
    """A mapped chunk; `access` has the access flags of each device that has any (1: read, 3: read and write)."""

    address: int
    size: int
    handle: int
    device: int
    access: Mapping[int, int]
    made_by: Origin


@dataclass(frozen=True)
class AllocationEntry:
    """Memory from ``cuMemAlloc``."""

    address: int
    size: int
    device: int
    made_by: Origin


@dataclass(frozen=True)
class ManagedAllocationEntry:
    """Memory from ``cuMemAllocManaged``; `device` was current when it was made."""

    address: int
    size: int
    device: int
    made_by: Origin


@dataclass(frozen=True)
class HostAllocationEntry:
    """Page-locked host memory."""

    address: int
    size: int
    kind: str
    made_by: Origin


@dataclass(frozen=True)
class PoolEntry:
    """One of CUDA's memory pools. A default pool is listed after the first call that asked for it.

    `held` and `used` are CUDA's RESERVED_MEM_CURRENT and USED_MEM_CURRENT. `reuses` counts allocations by the rule
    that served them: ``fresh``, ``synchronized``, ``same_stream``, ``event_dependency``, ``opportunistic``,
    ``internal_dependency``.
    """

    handle: int
    device: int
    location: str
    is_default: bool
    is_current: bool
    is_destroyed: bool
    exported: bool
    imported: bool
    held: int
    used: int
    allocations: int
    release_threshold: int
    reuses: Mapping[str, int]
    made_by: Origin


@dataclass(frozen=True)
class PoolAllocationEntry:
    """Memory from ``cuMemAllocAsync``, imported from another process's pool (then `stream` is 0), or allocated by the
    launch of a graph (then `pool` is 0)."""

    address: int
    size: int
    device: int
    pool: int
    stream: int
    made_by: Origin


@dataclass(frozen=True)
class ContextEntry:
    """A context; `retained` is the number of releases a primary context still needs, `sticky` its sticky error or 0."""

    device: int
    is_primary: bool
    retained: int
    sticky: int


@dataclass(frozen=True)
class StreamEntry:
    """A stream; `pending` is how many pieces of its work have not finished.

    `kind` is ``"created"``, or ``"legacy"`` or ``"per_thread"`` for the default streams of a context.
    """

    handle: int
    device: int
    flags: int
    kind: str
    pending: int
    made_by: Origin


@dataclass(frozen=True)
class EventEntry:
    """An event."""

    handle: int
    device: int
    flags: int
    made_by: Origin


@dataclass(frozen=True)
class ModuleEntry:
    """Code that is loaded into a context; its variables are listed as allocations."""

    handle: int
    device: int
    kernels: int
    variables: int
    is_of_library: bool
    made_by: Origin


@dataclass(frozen=True)
class LibraryEntry:
    """Code that is loaded, but belongs to no context."""

    handle: int
    kernels: int
    made_by: Origin


@dataclass(frozen=True)
class Incident:
    """A contract violation or a warning; `text` describes it in a sentence."""

    sequence: int
    call: str
    code: int
    text: str
    thread: int

    def __str__(self) -> str:
        return f"{self.call}: {self.text}"


@dataclass(frozen=True)
class Ledger:
    """The state of the emulated driver at one moment. ``print(ledger)`` shows it as a table."""

    devices: Sequence[DeviceEntry]
    reservations: Sequence[ReservationEntry]
    chunks: Sequence[ChunkEntry]
    mappings: Sequence[MappingEntry]
    allocations: Sequence[AllocationEntry]
    managed_allocations: Sequence[ManagedAllocationEntry]
    host_allocations: Sequence[HostAllocationEntry]
    pools: Sequence[PoolEntry]
    pool_allocations: Sequence[PoolAllocationEntry]
    contexts: Sequence[ContextEntry]
    streams: Sequence[StreamEntry]
    events: Sequence[EventEntry]
    modules: Sequence[ModuleEntry]
    libraries: Sequence[LibraryEntry]
    skipped_kernels: Mapping[str, int]
    graphs: Sequence[GraphEntry]
    graph_execs: Sequence[GraphExecEntry]
    graph_memory: Sequence[GraphMemoryEntry]
    user_objects: Sequence[UserObjectEntry]
    calls: Mapping[str, int]
    violations: Sequence[Incident]
    warnings: Sequence[Incident]

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """Reads the JSON text that the emulator writes."""
        data = json.loads(text)
        return cls(
            devices=_entries(DeviceEntry, data["devices"]),
            reservations=_entries(ReservationEntry, data["reservations"]),
            chunks=_entries(ChunkEntry, data["chunks"]),
            mappings=_entries(MappingEntry, data["mappings"]),
            allocations=_entries(AllocationEntry, data["allocations"]),
            managed_allocations=_entries(ManagedAllocationEntry, data["managed_allocations"]),
            host_allocations=_entries(HostAllocationEntry, data["host_allocations"]),
            pools=_entries(PoolEntry, data["pools"]),
            pool_allocations=_entries(PoolAllocationEntry, data["pool_allocations"]),
            contexts=_entries(ContextEntry, data["contexts"]),
            streams=_entries(StreamEntry, data["streams"]),
            events=_entries(EventEntry, data["events"]),
            modules=_entries(ModuleEntry, data["modules"]),
            libraries=_entries(LibraryEntry, data["libraries"]),
            skipped_kernels=MappingProxyType(dict(data["skipped_kernels"])),
            graphs=_entries(GraphEntry, data["graphs"]),
            graph_execs=_entries(GraphExecEntry, data["graph_execs"]),
            graph_memory=_entries(GraphMemoryEntry, data["graph_memory"]),
            user_objects=_entries(UserObjectEntry, data["user_objects"]),
            calls=MappingProxyType(dict(data["calls"])),
            violations=_entries(Incident, data["violations"]),
            warnings=_entries(Incident, data["warnings"]),
        )

    @property
    def is_empty(self) -> bool:
        """True if nothing is left: no memory, addresses, pools, streams, events, code or graphs. Devices, contexts and
        their default streams may be there, and default pools that hold nothing."""
        return not any(
            (
                self.reservations,
                self.chunks,
                self.mappings,
                self.allocations,
                self.managed_allocations,
                self.host_allocations,
                self._pools,
                self.pool_allocations,
                self._created_streams,
                self.events,
                self.modules,
                self.libraries,
                self.graphs,
                self.graph_execs,
                self._graph_memory,
                self.user_objects,
            )
        )

    @property
    def _created_streams(self) -> list[StreamEntry]:
        return [entry for entry in self.streams if entry.kind == "created"]

    @property
    def _pools(self) -> list[PoolEntry]:
        return [entry for entry in self.pools if not entry.is_default or entry.held]

    @property
    def _graph_memory(self) -> list[GraphMemoryEntry]:
        return [entry for entry in self.graph_memory if entry.held]

    def held(self, device: Device | int | None = None) -> int:
        """Bytes of physical memory that are held on a device, or on all devices."""
        ledger = self if device is None else self.of(device)
        entries: list[ChunkEntry | AllocationEntry] = [*ledger.chunks, *ledger.allocations]
        of_pools = sum(entry.held for entry in ledger.pools if entry.device >= 0)
        of_graphs = sum(entry.held for entry in ledger.graph_memory)
        managed = sum(entry.managed for entry in ledger.devices)
        return sum(entry.size for entry in entries if entry.device >= 0) + of_pools + of_graphs + managed

    def of(self, device: Device | int) -> Ledger:
        """Returns the part that belongs to one device. Calls, violations and warnings are those of the whole driver."""
        ordinal = device if isinstance(device, int) else device.ordinal
        mappings = [entry for entry in self.mappings if entry.device == ordinal]
        return replace(
            self,
            devices=tuple(entry for entry in self.devices if entry.ordinal == ordinal),
            reservations=tuple(
                entry
                for entry in self.reservations
                if any(entry.address <= mapping.address < entry.address + entry.size for mapping in mappings)
            ),
            chunks=tuple(entry for entry in self.chunks if entry.device == ordinal),
            mappings=tuple(mappings),
            allocations=tuple(entry for entry in self.allocations if entry.device == ordinal),
            managed_allocations=tuple(entry for entry in self.managed_allocations if entry.device == ordinal),
            host_allocations=(),
            pools=tuple(entry for entry in self.pools if entry.device == ordinal),
            pool_allocations=tuple(entry for entry in self.pool_allocations if entry.device == ordinal),
            contexts=tuple(entry for entry in self.contexts if entry.device == ordinal),
            streams=tuple(entry for entry in self.streams if entry.device == ordinal),
            events=tuple(entry for entry in self.events if entry.device == ordinal),
            modules=tuple(entry for entry in self.modules if entry.device == ordinal),
            libraries=(),
            graphs=(),
            graph_execs=(),
            graph_memory=tuple(entry for entry in self.graph_memory if entry.device == ordinal),
            user_objects=(),
        )

    def __str__(self) -> str:
        lines = [_device_line(device, self.held(device.ordinal)) for device in self.devices]
        lines += _section(
            "reservation", self.reservations, lambda entry: f"{_place(entry)}, {format_bytes(entry.mapped)} mapped"
        )
        lines += _section("chunk", self.chunks, _chunk_line)
        lines += _section("mapping", self.mappings, lambda entry: f"{_place(entry)} of device {entry.device}")
        lines += _section("allocation", self.allocations, lambda entry: f"{_place(entry)} of device {entry.device}")
        lines += _section("managed allocation", self.managed_allocations, _place)
        lines += _section("host allocation", self.host_allocations, lambda entry: f"{_place(entry)}, {entry.kind}")
        lines += _section("pool", self._pools, _pool_line)
        lines += _section(
            "pool allocation", self.pool_allocations, lambda entry: f"{_place(entry)} of pool {entry.pool:#x}"
        )
        lines += _section(
            "stream",
            self._created_streams,
            lambda entry: f"{entry.handle:#x} of device {entry.device}, {entry.pending} pending",
        )
        lines += _section("event", self.events, lambda entry: f"{entry.handle:#x} of device {entry.device}")
        lines += _section(
            "module", self.modules, lambda entry: f"{entry.handle:#x} of device {entry.device}, {entry.kernels} kernels"
        )
        if self.skipped_kernels:
            lines.append(f"{sum(self.skipped_kernels.values())} launches of kernels were skipped")
        lines += _section("graph", self.graphs, lambda entry: f"{entry.handle:#x}, {entry.nodes} nodes")
        lines += _section(
            "executable graph", self.graph_execs, lambda entry: f"{entry.handle:#x}, {entry.launches} launches"
        )
        lines += _section(
            "graph pool",
            self._graph_memory,
            lambda entry: f"{format_bytes(entry.held)} of device {entry.device}, {format_bytes(entry.used)} used",
        )
        lines += _section(
            "user object", self.user_objects, lambda entry: f"{entry.handle:#x}, {entry.references} references"
        )
        lines += _section("violation", self.violations, str)
        lines += _section("warning", self.warnings, str)
        if self.is_empty:
            lines.append("nothing is left")
        return "\n".join(lines)


def ledger() -> Ledger:
    """Returns the ledger as of now: existing objects, call counts, violations and warnings."""
    return Ledger.from_json(_driver().ledger())


def reset_ledger() -> None:
    """Clears the call counts, violations and warnings. Existing objects stay listed."""
    _driver().reset_ledger()


def _driver() -> _native.Driver:
    return _native.Driver.load(emulator_library())


_Entry = TypeVar("_Entry")


def _entries(kind: Callable[..., _Entry], rows: Iterable[Mapping[str, Any]]) -> tuple[_Entry, ...]:
    return tuple(kind(**{key: _value(key, value) for key, value in row.items()}) for row in rows)


def _value(key: str, value: Any) -> Any:
    if key == "made_by":
        return Origin(**value)
    if key == "reuses":
        return MappingProxyType(dict(value))
    if key == "access":
        # JSON has only strings as keys.
        return MappingProxyType({int(device): flags for device, flags in value.items()})
    return value


def _device_line(device: DeviceEntry, held: int) -> str:
    return f"device {device.ordinal}: {device.name}, {format_bytes(held)} held of {format_bytes(device.total)}"


def _place(
    entry: ReservationEntry
    | MappingEntry
    | AllocationEntry
    | ManagedAllocationEntry
    | HostAllocationEntry
    | PoolAllocationEntry,
) -> str:
    return f"{entry.address:#x}  {format_bytes(entry.size)}"


def _chunk_line(entry: ChunkEntry) -> str:
    return (
        f"{entry.handle:#x}  {format_bytes(entry.size)} of device {entry.device}, "
        f"{entry.references} references, {entry.mappings} mappings"
    )


def _pool_line(entry: PoolEntry) -> str:
    reuses = ", ".join(f"{count} {rule.replace('_', ' ')}" for rule, count in entry.reuses.items() if count)
    place = {"device": f"device {entry.device}", "host": "the host", "managed": "managed memory"}[entry.location]
    return f"{entry.handle:#x} of {place}, {format_bytes(entry.held)} held, {format_bytes(entry.used)} used" + (
        f" ({reuses})" if reuses else ""
    )


def _section(noun: str, entries: Sequence[_Entry], line: Callable[[_Entry], str]) -> list[str]:
    """A heading with the count, then one line for each entry with the call that made it."""
    if not entries:
        return []
    lines = [f"{len(entries)} {noun}{'' if len(entries) == 1 else 's'}:"]
    for entry in entries:
        origin = getattr(entry, "made_by", None)
        lines.append(f"  {line(entry)}" + (f"  ({origin.call} #{origin.sequence})" if origin else ""))
    return lines
