"""Finds out how much of a job's life a snapshot records, from its settings, its events and its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from memlake.trace.history import History
from memlake.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memlake.trace.recorded import Recorded, RecordedSegment

__all__ = ["EventSummary", "free_in_pools", "history_of", "pools_of"]

_ROUND = 100
"""People choose the length of the ring: a multiple of this, or a power of two of at least this."""


class EventSummary(NamedTuple):
    """What the events of a device tell about its history.

    Attributes:
        num_events: how many there are.
        num_allocations: how many of them allocate.
        begins_within_a_free: whether the first event completes a free whose request is missing, and all other frees are
            completed at once.
        has_lost_events: whether a block was allocated while PyTorch recorded, and its event is missing.
    """

    num_events: int
    num_allocations: int
    begins_within_a_free: bool
    has_lost_events: bool


def history_of(recorded: Recorded, events: EventSummary, settings: Mapping[str, Any], device: int) -> History:
    """Returns the history of one device of a snapshot.

    Args:
        recorded: the record of the device.
        events: its events.
        settings: the allocator's settings in the snapshot.
        device: the number of the device.
    """
    count = events.num_events
    if count <= 1 or events.num_allocations == 0:
        reason = "it has no events" if not count else f"it has {counted(count, 'event')}"
        reason += "" if count <= 1 else " and no allocation among them"
        return _history("state", reason, recorded.final)
    has_overflowed = _of_device(settings.get("trace_alloc_overflowed"), device)
    if has_overflowed:
        return _history("cut", f"PyTorch says that its ring of {count:,} events overflowed", recorded.initial)
    if recorded.is_complete:
        return History()
    if has_overflowed is None and (events.has_lost_events or events.begins_within_a_free):
        reason = "events are missing that PyTorch must have recorded, so its ring of events overflowed"
        return _history("cut", reason, recorded.initial)
    if has_overflowed is None and _is_round(count):
        reason = f"it has exactly {count:,} events, so their ring seems to have been full"
        return _history("cut", reason, recorded.initial)
    reason = "the recording began late" if has_overflowed is False else "the recording began late, or events are lost"
    return _history("warm", reason, recorded.initial)


def pools_of(segments: Sequence[RecordedSegment]) -> dict[str, int]:
    """Returns the bytes that each private pool holds at the end, at most 100 pools. The default pool is left out."""
    held: dict[str, int] = {}
    for segment in segments:
        if segment.pool != (0, 0):
            name = f"{segment.pool[0]},{segment.pool[1]}"
            held[name] = held.get(name, 0) + segment.nbytes
    return dict(sorted(held.items())[:100])


def free_in_pools(segments: Sequence[RecordedSegment]) -> int:
    """Returns the free bytes in private pools at the end. Other requests cannot have them."""
    return sum(
        block.nbytes
        for segment in segments
        if segment.pool != (0, 0)
        for block in segment.blocks
        if block.state == "free"
    )


def _history(kind: str, reason: str, segments: Sequence[RecordedSegment]) -> History:
    blocks = [block for segment in segments for block in segment.blocks]
    return History(
        kind=kind,
        reason=reason,
        held_before=sum(segment.nbytes for segment in segments),
        live_before=sum(block.nbytes for block in blocks if block.state != "free"),
        largest_free=max((block.nbytes for block in blocks if block.state == "free"), default=0),
    )


def _of_device(flag: object, device: int) -> bool | None:
    """Returns a flag that a snapshot has once or per device; None if the snapshot does not have it."""
    if isinstance(flag, list):
        flag = flag[device] if device < len(flag) else None
    elif isinstance(flag, dict):
        flag = flag.get(str(device))
    return flag if isinstance(flag, bool) else None


def _is_round(count: int) -> bool:
    return count >= _ROUND and (count % _ROUND == 0 or count & (count - 1) == 0)
