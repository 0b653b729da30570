"""The ledger as a text for people: each kind of object that is left, with the call that made it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from memlake.units import format_bytes
from memlake.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memlake.emulator.driver_ledger import (
        AllocationEntry,
        ChunkEntry,
        DeviceEntry,
        EventEntry,
        HostAllocationEntry,
        Ledger,
        ManagedAllocationEntry,
        MappingEntry,
        ModuleEntry,
        PoolAllocationEntry,
        PoolEntry,
        ReservationEntry,
        StreamEntry,
    )
    from memlake.emulator.graph_entries import GraphMemoryEntry


def text_of(ledger: Ledger) -> str:
    """Returns the text that ``print(ledger)`` shows."""
    lines = [_device_line(device, ledger.held(device.ordinal)) for device in ledger.devices]
    lines += _lines_of_memory(ledger)
    lines += _section("stream", created_streams(ledger), _stream_line)
    lines += _section("event", ledger.events, _handle_of_device)
    lines += _section("module", ledger.modules, lambda entry: f"{_handle_of_device(entry)}, {entry.kernels} kernels")
    if ledger.skipped_kernels:
        lines.append(f"{sum(ledger.skipped_kernels.values())} launches of kernels were skipped")
    lines += _lines_of_graphs(ledger)
    lines += _section("violation", ledger.violations, str)
    lines += _section("warning", ledger.warnings, str)
    if ledger.is_empty:
        lines.append("nothing is left")
    return "\n".join(lines)


def created_streams(ledger: Ledger) -> list[StreamEntry]:
    """Returns the streams that the program made, without default streams."""
    return [entry for entry in ledger.streams if entry.kind == "created"]


def pools_in_use(ledger: Ledger) -> list[PoolEntry]:
    """Returns the pools that the program made, and the default pools that hold memory."""
    return [entry for entry in ledger.pools if not entry.is_default or entry.held]


def graph_memory_in_use(ledger: Ledger) -> list[GraphMemoryEntry]:
    """Returns the memory of graphs, without devices on which graphs hold nothing."""
    return [entry for entry in ledger.graph_memory if entry.held]


def _lines_of_memory(ledger: Ledger) -> list[str]:
    return [
        *_section("reservation", ledger.reservations, _reservation_line),
        *_section("chunk", ledger.chunks, _chunk_line),
        *_section("mapping", ledger.mappings, _place_of_device),
        *_section("allocation", ledger.allocations, _place_of_device),
        *_section("managed allocation", ledger.managed_allocations, _place),
        *_section("host allocation", ledger.host_allocations, lambda entry: f"{_place(entry)}, {entry.kind}"),
        *_section("pool", pools_in_use(ledger), _pool_line),
        *_section("pool allocation", ledger.pool_allocations, lambda entry: f"{_place(entry)} of pool {entry.pool:#x}"),
    ]


def _lines_of_graphs(ledger: Ledger) -> list[str]:
    return [
        *_section("graph", ledger.graphs, lambda entry: f"{entry.handle:#x}, {entry.nodes} nodes"),
        *_section(
            "executable graph", ledger.graph_execs, lambda entry: f"{entry.handle:#x}, {entry.launches} launches"
        ),
        *_section("graph pool", graph_memory_in_use(ledger), _graph_memory_line),
        *_section(
            "user object", ledger.user_objects, lambda entry: f"{entry.handle:#x}, {entry.references} references"
        ),
    ]


_Entry = TypeVar("_Entry")


def _section(noun: str, entries: Sequence[_Entry], line: Callable[[_Entry], str]) -> list[str]:
    """A heading with the count, then one line for each entry with the call that made it."""
    if not entries:
        return []
    lines = [f"{counted(len(entries), noun)}:"]
    for entry in entries:
        origin = getattr(entry, "made_by", None)
        lines.append(f"  {line(entry)}" + (f"  ({origin.call} #{origin.sequence})" if origin else ""))
    return lines


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


def _place_of_device(entry: MappingEntry | AllocationEntry) -> str:
    return f"{_place(entry)} of device {entry.device}"


def _reservation_line(entry: ReservationEntry) -> str:
    return f"{_place(entry)}, {format_bytes(entry.mapped)} mapped"


def _handle_of_device(entry: EventEntry | ModuleEntry | StreamEntry) -> str:
    return f"{entry.handle:#x} of device {entry.device}"


def _stream_line(entry: StreamEntry) -> str:
    return f"{_handle_of_device(entry)}, {entry.pending} pending"


def _graph_memory_line(entry: GraphMemoryEntry) -> str:
    return f"{format_bytes(entry.held)} of device {entry.device}, {format_bytes(entry.used)} used"
