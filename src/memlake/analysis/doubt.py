"""Whether a trace lacks memory that its job had taken: PyTorch refused a request, and a replay of it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.replaying.capacity import GRID, LARGEST_DEVICE
from memlake.replaying.running import run

if TYPE_CHECKING:
    from memlake.replaying.event_mode import EventMode
    from memlake.trace import Trace

__all__ = ["doubt_of_own"]


def doubt_of_own(trace: Trace, events: EventMode) -> str:
    """Returns why replays of a trace find more memory than its job did, as text; empty if they are not known to.

    If the job's own allocator refused a request, the trace is replayed under the same settings on a device of the same
    size. If every request finds memory there, replays under all other policies lack the same memory.

    Args:
        trace: the trace.
        events: when events are complete.
    """
    own = trace.settings.policy
    size = None if trace.oom is None else trace.oom.capacity
    if own is None or size is None or not GRID <= size <= LARGEST_DEVICE or trace.history.kind == "state":
        return ""
    return run(trace, own, size, events, None).doubt
