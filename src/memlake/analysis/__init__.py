"""Analysis: answers that are computed from traces and from several replays of a trace.

Each file has a function and a frozen dataclass for its result. A result has a `sentence` for people and a `to_json()`
for programs. `compare` finds out which policies fit on a device, `fit` finds the smallest device of each policy,
`advise` searches PyTorch's settings, `reproduce` checks a replay against the file, `overview` describes a file, `diff`
finds what grew between two files, `never_freed` what a job did not free, `judge_shortage` says why PyTorch ran out of
memory, and `comparison_sentence` says a comparison in words. A new statistic of traces or pools is a new file here.
"""

from memlake.analysis.advising import Advice, advise
from memlake.analysis.comparing import Comparison, compare
from memlake.analysis.diffing import Diff, diff
from memlake.analysis.fitting import Fit, FitResult, fit
from memlake.analysis.never_freed_memory import NeverFreed, never_freed
from memlake.analysis.overview import Overview, overview
from memlake.analysis.reproducing import Reproduction, reproduce
from memlake.analysis.shortage_verdict import ShortageVerdict, judge_shortage

__all__ = [
    "Advice",
    "Comparison",
    "Diff",
    "Fit",
    "FitResult",
    "NeverFreed",
    "Overview",
    "Reproduction",
    "ShortageVerdict",
    "advise",
    "compare",
    "diff",
    "fit",
    "judge_shortage",
    "never_freed",
    "overview",
    "reproduce",
]
