"""Runs a recorded trace again: under another policy, on a device of another size, without a GPU.

`replay` is a name of `memlake`. docs/guides/will_it_fit.md shows it at work.
"""

from memlake.replaying.failure import Failure
from memlake.replaying.result import ReplayResult, Timeline
from memlake.replaying.running import replay

__all__ = ["Failure", "ReplayResult", "Timeline", "replay"]
