"""Verifying: replays a trace and compares the replay with the record. `memlake.trace.verify` calls it."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.errors import ConfigError
from memlake.trace.operations import Op
from memlake.trace.recorded import RecordedBlock, RecordedSegment
from memlake.trace.refused_rows import refused_rows
from memlake.trace.verification import Difference, Verification, recorded_policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlake import _native
    from memlake.policies import TorchOptions
    from memlake.trace.recorded import Recorded
    from memlake.trace.trace import Trace

__all__ = ["verify"]

SEGMENT_EVENTS = ("segment_alloc", "segment_free", "segment_map", "segment_unmap")
SMALLEST_DEVICE = 2**40
"""The least capacity of the replay. A record does not tell the capacity of its device, so the replay gets enough."""
LARGEST_DEVICE = 2**44
"""The largest device that the emulator can make."""


def verify(trace: Trace, *, policy: TorchOptions | None = None) -> Verification:
    """Returns the differences between a trace's record and a replay of its requests, see `memlake.trace.verify`."""
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
    found = _compare(trace, recorded, policy, "address")
    if found.is_exact:
        return found
    return min(found, _compare(trace, recorded, policy, "age"), key=lambda verification: verification.num_differences)


def _compare(trace: Trace, recorded: Recorded, policy: TorchOptions, tie_break: str) -> Verification:
    first_row = int(trace.metadata.get("num_carried", 0))
    outcome = _replay(trace, recorded, policy, tie_break, first_row)
    addresses = list(_different_addresses(trace, recorded, outcome, first_row))
    num_compared = int(np.count_nonzero(_allocates(trace)[first_row:]))
    differences = [
        *addresses,
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
        num_compared,
        sum(event.kind in SEGMENT_EVENTS for event in recorded.events),
        sum(len(segment.blocks) for segment in recorded.final),
        len(differences),
        tuple(differences[:100]),
        num_compared - len(addresses),
    )


def _replay(
    trace: Trace, recorded: Recorded, policy: TorchOptions, tie_break: str, first_row: int
) -> _native.RecordedOutcome:
    from memlake import _native
    from memlake.libraries import emulator_library

    events = [event for event in recorded.events if event.kind in SEGMENT_EVENTS]
    peak = recorded.held_peak
    capacity = max(SMALLEST_DEVICE, 2 * peak)
    told = trace.oom.capacity if trace.oom is not None else None
    if policy.memory_fraction < 1 and told is not None and told >= peak:
        capacity = told  # what PyTorch may hold is a share of the device's memory
    if capacity > LARGEST_DEVICE:
        raise ConfigError(f"the record speaks of {peak} bytes at once, which no device has")
    return _native.replay_record(
        _native.Driver.load(emulator_library()),
        policy.configuration,
        trace.op,
        trace.id,
        # A request that PyTorch refused has no address; without bytes it does nothing in the replay either.
        np.where(refused_rows(trace), np.uint64(0), trace.bytes),
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
    return (trace.op == Op.ALLOCATE.value) & (trace.bytes > 0) & ~refused_rows(trace)


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
    """Returns the segment without the requested sizes of free blocks, which PyTorch does not reset."""
    blocks = tuple(
        RecordedBlock(block.address, block.nbytes, 0, "free", None) if block.state == "free" else block
        for block in segment.blocks
    )
    return RecordedSegment(
        segment.address, segment.nbytes, segment.stream, segment.kind, segment.is_expandable, segment.pool, blocks
    )
