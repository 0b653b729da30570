"""Jobs of several ranks: one snapshot per rank, analysed in parallel processes, and one answer for all of them.

`ranks` finds the files and is also `memlake.ranks`. `Ranks` has a method for each question: it asks every file the same
(`asking`, in the worker processes of `processes`) and joins the answers. Each kind of answer is a file here: a subclass
of `JobAnswer`, with what holds for all ranks.
"""

from memlake.jobs.advice import JobAdvice, JobSetting
from memlake.jobs.answer import JobAnswer, Rank, Unreadable
from memlake.jobs.comparisons import JobComparison, JobPolicy
from memlake.jobs.fits import JobFit, JobSize
from memlake.jobs.labels import RankFile
from memlake.jobs.overviews import JobOverview
from memlake.jobs.rank_files import Ranks, ranks
from memlake.jobs.spread import Spread

__all__ = [
    "JobAdvice",
    "JobAnswer",
    "JobComparison",
    "JobFit",
    "JobOverview",
    "JobPolicy",
    "JobSetting",
    "JobSize",
    "Rank",
    "RankFile",
    "Ranks",
    "Spread",
    "Unreadable",
    "ranks",
]
