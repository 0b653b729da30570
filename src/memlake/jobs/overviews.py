"""The overview of a job of several ranks: one overview per file, the spread, and the rank that is worst off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memlake.analysis import Overview
from memlake.jobs.answer import JobAnswer, named
from memlake.jobs.spread import spread_of
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.jobs.answer import Rank
    from memlake.jobs.spread import Spread

__all__ = ["JobOverview"]


@dataclass(frozen=True, kw_only=True)
class JobOverview(JobAnswer[Overview], table="job_overview"):
    """The result of `Ranks.overview`."""

    @property
    def live(self) -> Spread | None:
        """The spread of the live peaks, without files that have no history. A refused request was not live."""
        return spread_of({one.label: one.result.peak.nbytes for one in self.ranks if one.result.peak.scope != "moment"})

    @property
    def died(self) -> tuple[Rank[Overview], ...]:
        """The ranks whose PyTorch refused a request."""
        return tuple(one for one in self.ranks if one.result.shortage is not None)

    @property
    def worst(self) -> Rank[Overview]:
        """The rank to look at first: one that ran out of memory, and of these the one that held the most."""

        def key(rank: Rank[Overview]) -> tuple[bool, int, int]:
            return rank.result.shortage is not None, _held(rank.result), rank.result.peak.nbytes

        return max(self.ranks, key=key)

    @property
    def why_worst(self) -> str:
        """Why that rank is the worst, as a part of a sentence."""
        if len(self.died) == 1:
            return "the only one that ran out of memory"
        if self.died:
            return f"of the {len(self.died)} that ran out of memory the one that held the most"
        return "the one that held the most" if self.held is not None else "the one with the most live memory"

    def __repr__(self) -> str:
        return f"<memlake.JobOverview of {self.title}: {len(self.died)} ran out of memory, worst {self.worst.label}>"

    @property
    def sentence(self) -> str:
        """How many ranks ran out of memory, and how far the ranks are apart, as text."""
        files = self.title
        died = f"None of {files} ran out of memory."
        if self.died:
            died = f"{len(self.died)} of {files} ran out of memory ({named([one.label for one in self.died])})."
        held = self.held
        if held is None or held.num_ranks < 2 or not self.is_one_job:
            return died
        return (
            f"{died} PyTorch held from {format_bytes(held.least)} ({self[held.least_rank].file.title}) to "
            f"{format_bytes(held.most)} ({self[held.most_rank].file.title})."
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object that ``memlake show --json`` prints for several files, as a dict."""
        return self.head_to_json() | {
            "worst": self.worst.label,
            "ranks": self.ranks_to_json(Overview.to_json),
            "sentence": self.sentence,
        }


def _held(found: Overview) -> int:
    return max(found.held_peak or 0, 0 if found.at_end is None else found.at_end.held)
