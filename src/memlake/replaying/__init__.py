"""Replays: runs a recorded trace under another policy or on a device of another size, without a GPU.

`replay` is also `memlake.replay`. docs/guides/will_it_fit.md explains how to use it.
"""

from memlake.replaying.failure import Failure
from memlake.replaying.result import ReplayResult, Timeline
from memlake.replaying.running import replay

__all__ = ["Failure", "ReplayResult", "Timeline", "replay"]
