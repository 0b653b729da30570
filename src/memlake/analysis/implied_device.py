"""The device of a question that names none: what the file implies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.policies import CachingOptions
from memlake.replaying.capacity import (
    GRID,
    LARGEST_DEVICE,
    Capacity,
    capacity_of,
    known_capacity,
)
from memlake.replaying.event_mode import EventMode
from memlake.replaying.running import run
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.trace import Trace
    from memlake.units import Size

__all__ = ["device_of"]

_ROOM = 2**30


def device_of(trace: Trace, capacity: Size | None, reserve: Size | None = None) -> Capacity:
    """Returns the given capacity, or the one that the trace tells, or the one that it implies.

    A snapshot implies the most memory that PyTorch held in it. Any other trace implies what PyTorch's default allocator
    holds for it if memory is never short. A snapshot whose last request was refused by a limit of the process implies
    nothing.

    Raises:
        ConfigError: if an argument cannot be used, or nothing is implied.
    """
    is_refused = trace.oom is not None
    if capacity is not None or reserve is not None or is_refused or known_capacity(trace) is not None:
        return capacity_of(trace, capacity, reserve)
    held = max(trace.history.held_before, 0 if trace.recorded is None else trace.recorded.held_peak)
    what = "the most that PyTorch held in it"
    if held < trace.peak_live:
        options = trace.settings.policy or CachingOptions()
        # Expandable segments need addresses for more than the device has, so the device is large but not the largest.
        roomy = min(max(4 * trace.peak_live, _ROOM) // GRID * GRID, LARGEST_DEVICE)
        held = run(trace, options, roomy, EventMode("immediate"), None).peak_held
        what = f"what {options.label} holds for it if memory is never short"
    size = min(max(-(-held // GRID), 1) * GRID, LARGEST_DEVICE)
    return Capacity(
        size,
        f"The file does not tell the size of the device: the answers are for {format_bytes(size)}, {what}. Name "
        "another size, or a GPU, with --capacity.",
    )
