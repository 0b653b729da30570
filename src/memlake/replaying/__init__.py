"""Runs a recorded trace again: under another policy, on a device of another size, without a GPU.

`replay` asks one question, `compare` asks it of several policies, `fit` asks how small the device may be. All three are
names of `memlake`. docs/guides/will_it_fit.md shows them at work.
"""

from memlake.replaying.comparing import Comparison, compare
from memlake.replaying.failure import Failure
from memlake.replaying.fitting import Fit, FitResult, fit
from memlake.replaying.result import ReplayResult, Timeline
from memlake.replaying.running import replay

__all__ = ["Comparison", "Failure", "Fit", "FitResult", "ReplayResult", "Timeline", "compare", "fit", "replay"]
