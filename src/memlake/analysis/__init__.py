"""Analysis: what the replays of a trace say together.

Each question is a file with a function that asks it and a frozen dataclass that is the answer. An answer has a
`sentence` for people and a `to_json()` for programs. `compare` asks which policies fit, `fit` asks how small the device
may be, and `advice` puts a comparison into words. Statistics of traces and pools belong here, too.
"""

from memlake.analysis.comparing import Comparison, compare
from memlake.analysis.fitting import Fit, FitResult, fit

__all__ = ["Comparison", "Fit", "FitResult", "compare", "fit"]
