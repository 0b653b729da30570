"""How much memory the device of a replay has: as asked, or as the trace itself tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.errors import ConfigError
from memlake.units import Size, format_bytes, parse_bytes

if TYPE_CHECKING:
    from memlake.trace import Trace

__all__ = ["GRID", "LARGEST_DEVICE", "capacity_of", "known_capacity", "limit_of"]

GRID = 2 * 2**20
"""Devices are measured in steps of this: the granule of CUDA devices, and the smallest device that is emulated."""
LARGEST_DEVICE = 16 * 2**40
"""The largest device that the emulator makes."""


def capacity_of(trace: Trace, capacity: Size | None) -> int:
    """The capacity asked for, in bytes; if none is, what the trace tells.

    Raises:
        ConfigError: if it is no size, or the size of no device; or if none is given and the trace tells none.
    """
    if capacity is None:
        known = known_capacity(trace)
        if known is None:
            raise ConfigError(
                "how much memory has the device? This trace does not tell; "
                'say it with capacity (on the command line --capacity), for instance "80GiB"; '
                f"at its peak {format_bytes(trace.peak_live)} are live"
            )
        return known
    nbytes = parse_bytes(capacity, what="capacity")
    if not GRID <= nbytes <= LARGEST_DEVICE:
        raise ConfigError(f"capacity must be between 2 MiB and 16 TiB, got {format_bytes(nbytes)}")
    return nbytes


def known_capacity(trace: Trace) -> int | None:
    """What a trace tells about its device: its metadata's ``capacity``, or what a recorded failure gives away.

    When PyTorch runs out of memory it records what the driver still had; with what PyTorch held then, that is the
    memory it could have used.
    """
    told = trace.metadata.get("capacity")
    if isinstance(told, int) and not isinstance(told, bool) and GRID <= told <= LARGEST_DEVICE:
        return told
    if trace.recorded is None:
        return None
    held = sum(segment.nbytes for segment in trace.recorded.initial)
    for event in trace.recorded.events:
        if event.kind in ("segment_alloc", "segment_map"):
            held += event.nbytes
        elif event.kind in ("segment_free", "segment_unmap"):
            held -= event.nbytes
        elif event.kind == "oom" and event.device_free is not None and held + event.device_free >= GRID:
            return min(held + event.device_free, LARGEST_DEVICE)
    return None


def limit_of(limit: Size | None, own_limit: int | None, capacity: int) -> int | None:
    """The smaller of a limit asked for and a policy's own; None if neither limits anything.

    Raises:
        ConfigError: if it is no size.
    """
    asked = None if limit is None else parse_bytes(limit, of=capacity, what="limit")
    given = [value for value in (asked, own_limit) if value is not None]
    return min(given) if given else None
