"""Fits for a job of several ranks: the smallest device that serves every rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memlake.analysis import Fit
from memlake.jobs.answer import JobAnswer
from memlake.jobs.spread import spread_of
from memlake.units import format_bytes
from memlake.wording import listed

if TYPE_CHECKING:
    from memlake.jobs.answer import Rank
    from memlake.jobs.spread import Spread
    from memlake.policies import Options

__all__ = ["JobFit", "JobSize"]


@dataclass(frozen=True)
class JobSize:
    """The smallest device of one policy for all ranks.

    Attributes:
        options: the policy with its options.
        sizes: the smallest device of each rank in bytes, by its label; None for a rank that ran on no tried device.
        min_capacity: a device on which every rank ran: the largest of `sizes`, or the next larger size on which a
            replay showed that all of them run. None: a rank ran on no tried device, or the replays found no such size.
        is_decided: whether the files can tell that all ranks fit on it; else the job may need more.
    """

    options: Options
    sizes: dict[str, int | None]
    min_capacity: int | None
    is_decided: bool = True

    @property
    def shown(self) -> str:
        """The device that serves all ranks for a cell: ``"4 GiB"``, ``"at least 4 GiB"``, or ``"unknown"``."""
        if self.min_capacity is None:
            return "unknown"
        return ("" if self.is_decided else "at least ") + format_bytes(self.min_capacity)

    @property
    def spread(self) -> Spread | None:
        """The spread of the smallest devices of the ranks."""
        return spread_of(self.sizes)

    @property
    def beyond(self) -> tuple[str, ...]:
        """The labels of the ranks that ran on no tried device, or have no history."""
        return tuple(label for label, size in self.sizes.items() if size is None)

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as a dict."""
        spread = self.spread
        return {
            "policy": self.options.name,
            "options": self.options.to_text(),
            "min_capacity": self.min_capacity,
            "is_decided": self.is_decided,
            "spread": None if spread is None else spread.to_json(),
            "beyond": list(self.beyond),
        }


@dataclass(frozen=True, kw_only=True)
class JobFit(JobAnswer[Fit], table="job_fit"):
    """The result of `Ranks.fit`.

    Attributes:
        policies: the smallest device of each policy for all ranks; empty if the files are of different jobs.
    """

    policies: tuple[JobSize, ...] = ()

    @property
    def is_decided(self) -> bool:
        """False if a file cannot tell how small its device may be."""
        return all(one.result.is_decided for one in self.ranks)

    @property
    def outcome(self) -> str:
        """``"ok"``, or ``"unknown"`` if a file cannot tell how small its device may be."""
        return "ok" if self.is_decided else "unknown"

    @property
    def undecided(self) -> tuple[str, ...]:
        """The labels of the files that cannot tell how small their device may be."""
        return tuple(one.label for one in self.ranks if not one.result.is_decided)

    @property
    def worst(self) -> Rank[Fit]:
        """The rank that needs the largest device under its first policy, which is what the job ran under if known."""

        def key(rank: Rank[Fit]) -> tuple[bool, int, int]:
            first = rank.result[0]
            return first.min_capacity is None, first.min_capacity or 0, rank.peak_live

        return max(self.ranks, key=key)

    def __repr__(self) -> str:
        shown = ", ".join(f"{size.options.label} {size.shown}" for size in self.policies)
        return f"<memlake.JobFit of {self.title}: {shown or 'different jobs'}>"

    @property
    def sentence(self) -> str:
        """The smallest device of each policy for all ranks, as text."""
        total = self.title
        if not self.is_one_job:
            return f"Each of {total} has smallest devices of its own."
        known = [size for size in self.policies if size.min_capacity is not None]
        parts = []
        if known:
            ordered = sorted(known, key=lambda size: size.min_capacity or 0)
            sizes = [f"{size.options.label} {size.shown}" for size in ordered]
            parts.append(f"The smallest device that serves all {total}: {listed(sizes)}.")
        for size in self.policies:
            if size.beyond and not set(size.beyond) <= set(self.undecided):
                parts.append(f"Under {size.options.label} {self.names_of(size.beyond)} ran on no tried device.")
        if self.undecided:
            first = self[self.undecided[0]]
            parts.append(f"It cannot be known for {self.names_of(self.undecided)}. {first.result.doubt}")
        if self.unreadable:
            parts.append("The files that could not be read may need more.")
        return " ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object that ``memlake fit --json`` prints for several files, as a dict."""
        return self.head_to_json() | {
            "is_decided": self.is_decided,
            "outcome": self.outcome,
            "undecided": list(self.undecided),
            "worst": self.worst.label,
            "policies": [size.to_json() for size in self.policies],
            "ranks": self.ranks_to_json(Fit.to_json),
            "sentence": self.sentence,
        }
