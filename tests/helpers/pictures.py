"""What exists on emulated devices, as something two moments can be compared by."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from memlake import emulator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memlake import Device


def picture(devices: Iterable[Device]) -> dict[str, object]:
    """Chunks, reservations, mappings with their rights, and free memory. Equal pictures: nothing changed."""
    gc.collect()  # addresses of earlier tests that wait for it would go in between
    ledger = emulator.ledger()
    return {
        "free": [device.free_memory for device in devices],
        "chunks": sorted((chunk.handle, chunk.size, chunk.references) for chunk in ledger.chunks),
        "reservations": sorted((entry.address, entry.size) for entry in ledger.reservations),
        "mappings": sorted(
            (entry.address, entry.size, entry.handle, tuple(sorted(entry.access.items()))) for entry in ledger.mappings
        ),
        "allocations": sorted((entry.address, entry.size) for entry in ledger.allocations),
    }
