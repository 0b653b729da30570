"""Does a replay do what the program's own allocator did? For traces that come with a record of it: snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.errors import ConfigError
from memlake.policies import CachingOptions, ExpandableOptions, TorchOptions
from memlake.trace.operations import Op
from memlake.trace.recorded import RecordedBlock, RecordedSegment

if TYPE_CHECKING:
    from memlake import _native
    from memlake.trace.recorded import Recorded
    from memlake.trace.trace import Trace

__all__ = ["Difference", "Verification", "recorded_policy", "verify"]

SEGMENT_EVENTS = ("segment_alloc", "segment_free", "segment_map", "segment_unmap")
SMALLEST_DEVICE = 2**40
"""A record does not say how large its device was. When memory ran out it does say, so the replay gets enough."""
LARGEST_DEVICE = 2**44
"""What the emulator can be asked for."""


@dataclass(frozen=True)
class Difference:
    """Something that the replay did otherwise.

    Attributes:
        row: of the trace; its length for what differs at the end.
        what: ``"address"``, ``"segment event"``, ``"segment"`` or ``"out of memory"``.
        recorded: what the program's allocator did, or None if it did nothing.
        replayed: what the replay did, or None.
    """

    row: int
    what: str
    recorded: object
    replayed: object


@dataclass(frozen=True)
class Verification:
    """How far a replay is what was recorded.

    Attributes:
        policy: what was replayed.
        tie_break: which of two free blocks of one size was taken: the one at the lower ``"address"``, or the one in the
            segment of greater ``"age"``. Versions of PyTorch differ in it.
        is_complete: whether the record has everything from the first segment on; else its beginning was inferred.
        num_allocations: how many addresses were compared.
        num_segment_events: how many segments came or went in the record.
        num_blocks: how many blocks there are at the end of the record.
        num_differences: all of them.
        differences: the first 100, by row.
    """

    policy: TorchOptions
    tie_break: str
    is_complete: bool
    num_allocations: int
    num_segment_events: int
    num_blocks: int
    num_differences: int
    differences: tuple[Difference, ...] = field(repr=False)

    @property
    def is_exact(self) -> bool:
        """Whether the replay did the same to the byte: every address, every segment, every block at the end."""
        return self.num_differences == 0


def verify(trace: Trace, *, policy: TorchOptions | None = None) -> Verification:
    """Replays a trace under the policy that recorded it, and compares every step with the record.

    What is compared: the address of each allocation, each segment that came or went, and all blocks at the end. Taken
    from the record, because no replay can know it: where the driver put a new segment, and when (not which) memory was
    given back.

    Args:
        trace: one that knows what its allocator did, as those of PyTorch's snapshots do.
        policy: PyTorch's allocator and its options; None: those that the snapshot names.

    Raises:
        ConfigError: if the trace has no record to compare with, or begins in the middle of expandable segments.
    """
    recorded = trace.recorded
    if recorded is None:
        raise ConfigError(
            "this trace has no record of what its allocator did; load a PyTorch snapshot that has a history"
        )
    if any(segment.is_expandable for segment in recorded.initial):
        raise ConfigError(
            "the record begins in the middle of expandable segments, whose first layout cannot be known; "
            "start recording before the first allocation"
        )
    if policy is None:
        policy = recorded_policy(trace)
    found = [_compare(trace, recorded, policy, tie_break) for tie_break in ("address", "age")]
    return min(found, key=lambda verification: verification.num_differences)


def recorded_policy(trace: Trace) -> TorchOptions:
    """PyTorch's allocator with the options that a snapshot names; its defaults if it names none.

    Raises:
        ConfigError: if it names options that PyTorch would refuse.
    """
    settings = trace.metadata.get("allocator_settings")
    if not isinstance(settings, Mapping):
        settings = {}
    chosen: dict[str, Any] = {}
    for name in ("max_split_size", "garbage_collection_threshold"):
        if _is_positive(value := settings.get(name)):  # a maximum of -1: none
            chosen[name] = value
    divisions = settings.get("roundup_power2_divisions")
    if isinstance(divisions, Mapping):
        numbers = [divisions.get(str(2**power)) for power in range(16)]
        chosen["roundup_power2_divisions"] = [number if _is_positive(number) else 0 for number in numbers]
    options = ExpandableOptions if settings.get("expandable_segments") else CachingOptions
    return options(**chosen)


def _is_positive(value: object) -> bool:
    return type(value) in (int, float) and value > 0  # type: ignore[operator]  # it is a number


def _compare(trace: Trace, recorded: Recorded, policy: TorchOptions, tie_break: str) -> Verification:
    first_row = int(trace.metadata.get("num_carried", 0))
    outcome = _replay(trace, recorded, policy, tie_break, first_row)
    differences = [
        *_different_addresses(trace, recorded, outcome, first_row),
        *_different_events(recorded, outcome),
        *_different_segments(len(trace), recorded, outcome),
    ]
    if outcome.failed_row is not None:
        differences.append(Difference(outcome.failed_row, "out of memory", None, int(trace.bytes[outcome.failed_row])))
    differences.sort(key=lambda difference: difference.row)
    return Verification(
        policy,
        tie_break,
        recorded.is_complete,
        int(np.count_nonzero(_allocates(trace)[first_row:])),
        sum(event.kind in SEGMENT_EVENTS for event in recorded.events),
        sum(len(segment.blocks) for segment in recorded.final),
        len(differences),
        tuple(differences[:100]),
    )


def _replay(
    trace: Trace, recorded: Recorded, policy: TorchOptions, tie_break: str, first_row: int
) -> _native.RecordedOutcome:
    from memlake import _native
    from memlake.libraries import emulator_library

    events = [event for event in recorded.events if event.kind in SEGMENT_EVENTS]
    held = peak = sum(segment.nbytes for segment in recorded.initial)
    for event in events:
        held += event.nbytes if event.kind in ("segment_alloc", "segment_map") else -event.nbytes
        peak = max(peak, held)
    capacity = max(SMALLEST_DEVICE, 2 * peak)
    if capacity > LARGEST_DEVICE:
        raise ConfigError(f"the record speaks of {peak} bytes at once, which no device has")
    return _native.replay_record(
        _native.Driver.load(emulator_library()),
        policy.to_native(),
        trace.op,
        trace.id,
        trace.bytes,
        trace.stream,
        first_row,
        [_segment_tuple(segment) for segment in recorded.initial],
        [(event.row, event.kind, event.address, event.nbytes, event.stream) for event in events],
        tie_break,
        capacity,
    )


def _segment_tuple(segment: RecordedSegment) -> tuple[int, int, int, bool, bool, list[tuple[int, int, str, int]]]:
    blocks = [
        (block.nbytes, block.requested, block.state, -1 if block.id is None else block.id) for block in segment.blocks
    ]
    return segment.address, segment.nbytes, segment.stream, segment.kind == "small", segment.is_expandable, blocks


def _allocates(trace: Trace) -> Any:
    return (trace.op == Op.ALLOCATE) & (trace.bytes > 0)


def _different_addresses(
    trace: Trace, recorded: Recorded, outcome: _native.RecordedOutcome, first_row: int
) -> Iterator[Difference]:
    ours = np.array(outcome.addresses, np.uint64)
    differs = (ours != recorded.addresses) & _allocates(trace)
    differs[:first_row] = False
    for row in np.flatnonzero(differs):
        yield Difference(int(row), "address", int(recorded.addresses[row]), int(ours[row]))


def _different_events(recorded: Recorded, outcome: _native.RecordedOutcome) -> Iterator[Difference]:
    theirs = [
        (event.row, event.kind, event.address, event.nbytes, event.stream)
        for event in recorded.events
        if event.kind in SEGMENT_EVENTS
    ]
    for one, other in zip_longest(theirs, outcome.events):
        if one != other:
            row = other[0] if one is None else one[0]
            yield Difference(row, "segment event", one, other)


def _different_segments(end: int, recorded: Recorded, outcome: _native.RecordedOutcome) -> Iterator[Difference]:
    theirs = {segment.address: _segment_tuple(_without_stale(segment)) for segment in recorded.final}
    ours = {segment[0]: segment for segment in outcome.last}
    for address in sorted(theirs.keys() | ours.keys()):
        one, other = theirs.get(address), ours.get(address)
        if one != other:
            yield Difference(end, "segment", one, other)


def _without_stale(segment: RecordedSegment) -> RecordedSegment:
    """Free blocks may still name what was last asked of them."""
    blocks = tuple(
        RecordedBlock(block.address, block.nbytes, 0, "free", None) if block.state == "free" else block
        for block in segment.blocks
    )
    return RecordedSegment(
        segment.address, segment.nbytes, segment.stream, segment.kind, segment.is_expandable, segment.pool, blocks
    )
