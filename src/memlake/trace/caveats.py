"""Caveats: what a reader must know about a trace before trusting figures that were computed from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.units import format_bytes
from memlake.wording import counted, plural

if TYPE_CHECKING:
    from memlake.trace.trace import Trace

__all__ = ["caveats_of", "contradiction_of", "other_devices_of"]

_MOST_NAMES = 8


def caveats_of(trace: Trace) -> tuple[str, ...]:
    """Returns one sentence or two per caveat; empty for a complete trace of one device without private pools."""
    found = [
        trace.history.sentence,
        _accelerator(trace),
        contradiction_of(trace),
        other_devices_of(trace),
        _pools(trace),
    ]
    if trace.settings.trouble:
        found.append(f"The settings in the file cannot be used ({trace.settings.trouble}); defaults were assumed.")
    return tuple(filter(None, found))


def _accelerator(trace: Trace) -> str:
    if trace.settings.accelerator != "npu":
        return ""
    return (
        "The snapshot is of torch_npu, not of CUDA: that allocator pads and places blocks otherwise, so addresses do "
        "not reproduce and the figures are estimates."
    )


def contradiction_of(trace: Trace) -> str:
    """Returns how the requests and the segments of a file contradict each other; empty if they do not."""
    recorded = trace.recorded
    if recorded is None or trace.history.kind == "state":
        return ""
    peak = recorded.held_peak
    # A request that PyTorch refused is not live in it, so it may be larger than what was held.
    refused = sum(shortage.requested for shortage in trace.shortages)
    if peak == 0 or trace.peak_live <= peak + refused:
        return ""
    return (
        f"The file contradicts itself: its requests need {format_bytes(trace.peak_live)} at once, and its segments "
        f"have {format_bytes(peak)}. The figures follow the requests."
    )


def other_devices_of(trace: Trace) -> str:
    """Returns which other devices the file has; empty if it has none."""
    events = trace.metadata.get("devices")
    held = trace.metadata.get("held_on_devices")
    if not isinstance(events, dict) or not isinstance(held, dict) or len(events) < 2:
        return ""
    own = str(trace.metadata.get("device"))
    others = [name for name in events if name != own]
    listed = [
        f"{name} ({format_bytes(nbytes) if isinstance(nbytes := held.get(name), int) else 'no memory'} held)"
        for name in others[:_MOST_NAMES]
    ]
    more = f" and {len(others) - _MOST_NAMES} more" if len(others) > _MOST_NAMES else ""
    word = plural(len(others), "device")
    return f"This is device {own} of the snapshot; it also has {word} {', '.join(listed)}{more}: see --device."


def _pools(trace: Trace) -> str:
    pools = trace.metadata.get("private_pools")
    if not isinstance(pools, dict) or not pools:
        return ""
    sizes = [nbytes for nbytes in pools.values() if isinstance(nbytes, int)]
    shown = ", ".join(f"({name})" for name in list(pools)[:_MOST_NAMES])
    more = ", ..." if len(pools) > _MOST_NAMES else ""
    free = trace.free_in_private_pools
    held_back = (
        f"{format_bytes(free)} of that are free, and other requests cannot have them" if free else "none is free"
    )
    private = counted(len(pools), "private pool")
    held = f"{format_bytes(sum(sizes))} are held in {private} ({shown}{more}: CUDA graphs or MemPool)"
    return (
        f"{held}; {held_back}. memlake does not model private pools: a replay serves their requests from the common "
        "pool, so its figures lack the free memory that they hold back."
    )
