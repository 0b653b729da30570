"""The driver's view of a pool's memory, read from the emulator's ledger."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from memlake import emulator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memlake import Buffer
    from memlake.emulator import Ledger

__all__ = ["nothing_is_left", "require_own_memory"]


def require_own_memory(ledger: Ledger, buffers: Iterable[Buffer]) -> None:
    """Fails unless every byte of every buffer is mapped, and no two of them are the same byte of a chunk."""
    mappings = {mapping.address: mapping for mapping in ledger.mappings}
    begins = np.array(sorted(mappings))
    used: list[tuple[int, int, int, str]] = []
    for buffer in buffers:
        at, end = buffer.address, buffer.address + buffer.nbytes
        while at < end:
            place = int(np.searchsorted(begins, at, side="right")) - 1
            mapping = mappings[int(begins[place])] if place >= 0 else None
            assert mapping is not None, f"nothing is mapped at {at:#x} of {buffer!r}"
            until = min(end, mapping.address + mapping.size)
            assert at < until, f"nothing is mapped at {at:#x} of {buffer!r}"
            used.append((mapping.handle, at - mapping.address, until - mapping.address, repr(buffer)))
            at = until
    used.sort()
    for (handle, _, end, one), (other_handle, begin, _, two) in pairwise(used):
        assert handle != other_handle or end <= begin, f"{one} and {two} have the same bytes of chunk {handle:#x}"


@contextmanager
def nothing_is_left() -> Iterator[None]:
    """Fails if the driver has chunks, mappings or reservations after a ``with`` block that it did not have before."""
    before = _holdings()
    yield
    assert _holdings() <= before


def _holdings() -> set[tuple[str, int]]:
    ledger = emulator.ledger()
    chunks = {("chunk", chunk.handle) for chunk in ledger.chunks}
    mappings = {("mapping", mapping.address) for mapping in ledger.mappings}
    return chunks | mappings | {("reservation", reservation.address) for reservation in ledger.reservations}
