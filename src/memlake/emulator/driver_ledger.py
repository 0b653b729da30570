"""The ledger of the emulated driver: its objects and their origin, call counts, violations and warnings."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from memlake import _native
from memlake.emulator.graph_entries import GraphEntry, GraphExecEntry, GraphMemoryEntry, UserObjectEntry
from memlake.emulator.ledger_text import created_streams, graph_memory_in_use, pools_in_use, text_of
from memlake.libraries import emulator_library

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
                pools_in_use(self),
                self.pool_allocations,
                created_streams(self),
                self.events,
                self.modules,
                self.libraries,
                self.graphs,
                self.graph_execs,
                graph_memory_in_use(self),
                self.user_objects,
            )
        )

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
        mappings = _on(ordinal, self.mappings)
        return replace(
            self,
            devices=tuple(entry for entry in self.devices if entry.ordinal == ordinal),
            reservations=tuple(entry for entry in self.reservations if _has_any(entry, mappings)),
            chunks=_on(ordinal, self.chunks),
            mappings=mappings,
            allocations=_on(ordinal, self.allocations),
            managed_allocations=_on(ordinal, self.managed_allocations),
            host_allocations=(),
            pools=_on(ordinal, self.pools),
            pool_allocations=_on(ordinal, self.pool_allocations),
            contexts=_on(ordinal, self.contexts),
            streams=_on(ordinal, self.streams),
            events=_on(ordinal, self.events),
            modules=_on(ordinal, self.modules),
            libraries=(),
            graphs=(),
            graph_execs=(),
            graph_memory=_on(ordinal, self.graph_memory),
            user_objects=(),
        )

    def __str__(self) -> str:
        return text_of(self)


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


class _OnDevice(Protocol):
    @property
    def device(self) -> int: ...


_Placed = TypeVar("_Placed", bound=_OnDevice)


def _on(ordinal: int, entries: Iterable[_Placed]) -> tuple[_Placed, ...]:
    return tuple(entry for entry in entries if entry.device == ordinal)


def _has_any(reservation: ReservationEntry, mappings: Iterable[MappingEntry]) -> bool:
    end = reservation.address + reservation.size
    return any(reservation.address <= mapping.address < end for mapping in mappings)
