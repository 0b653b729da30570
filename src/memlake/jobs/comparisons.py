"""Comparisons for a job of several ranks: a policy fits if it fits on every rank."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

from memlake.analysis import Comparison
from memlake.jobs.answer import JobAnswer, named
from memlake.jobs.spread import spread_of
from memlake.policies import TorchOptions, default_policy
from memlake.units import format_bytes
from memlake.wording import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.jobs.answer import Rank
    from memlake.jobs.spread import Spread
    from memlake.policies import Options
    from memlake.replaying import ReplayResult

__all__ = ["JobComparison", "JobPolicy", "joint_outcome"]

_FOR_COMPARISON = frozenset({"stitch", "direct"})


def joint_outcome(outcomes: Sequence[str]) -> str:
    """Returns the outcome of all ranks together: one that runs out decides, then one that cannot be decided."""
    return next((outcome for outcome in ("oom", "unknown") if outcome in outcomes), "ok")


@dataclass(frozen=True)
class JobPolicy:
    """One policy on all ranks.

    Attributes:
        options: the policy with its options.
        results: its replay on each rank, by the label of the rank.
    """

    options: Options
    results: dict[str, ReplayResult]

    @property
    def outcome(self) -> str:
        """``"ok"`` if every rank fits, ``"oom"`` if one does not, ``"unknown"`` if one cannot be decided."""
        return joint_outcome([result.outcome for result in self.results.values()])

    @property
    def failing(self) -> tuple[str, ...]:
        """The labels of the ranks that run out of memory."""
        return tuple(label for label, result in self.results.items() if result.outcome == "oom")

    @property
    def undecided(self) -> tuple[str, ...]:
        """The labels of the ranks for which the file cannot decide it."""
        return tuple(label for label, result in self.results.items() if result.outcome == "unknown")

    @property
    def held(self) -> Spread | None:
        """The spread of the held peaks of the ranks that fit."""
        return spread_of({label: result.peak_held for label, result in self.results.items() if result.fits})

    @property
    def driver_ms(self) -> float | None:
        """The modelled driver time of the rank that has the most; None if it is not modelled."""
        times = [result.modelled_driver_ms for result in self.results.values()]
        known = [time for time in times if time is not None]
        return max(known) if known and len(known) == len(times) else None

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as a dict."""
        held = self.held
        return {
            "policy": self.options.name,
            "options": self.options.to_text(),
            "outcome": self.outcome,
            "failing": list(self.failing),
            "undecided": list(self.undecided),
            "peak_held": None if held is None else held.to_json(),
            "driver_ms": self.driver_ms,
        }


@dataclass(frozen=True, kw_only=True)
class JobComparison(JobAnswer[Comparison], table="job_comparison"):
    """The result of `Ranks.compare`.

    Attributes:
        origin: where the size of the device comes from, if it was not given and is the same for all ranks.
    """

    origin: str = ""

    @property
    def capacity(self) -> int | None:
        """The memory of the device; None if the files are of different jobs and each has a device of its own."""
        sizes = {one.result.capacity for one in self.ranks}
        return sizes.pop() if len(sizes) == 1 else None

    @cached_property
    def policies(self) -> tuple[JobPolicy, ...]:
        """The policies that were replayed on every rank; empty if the files are of different jobs."""
        if not self.is_one_job:
            return ()
        found: dict[Options, dict[str, ReplayResult]] = {}
        for one in self.ranks:
            for result in one.result:
                found.setdefault(result.options, {})[one.label] = result
        return tuple(JobPolicy(options, by) for options, by in found.items() if len(by) == len(self.ranks))

    @property
    def fitting(self) -> tuple[JobPolicy, ...]:
        """The policies under which every rank fits."""
        return tuple(policy for policy in self.policies if policy.outcome == "ok")

    @property
    def outcome(self) -> str:
        """``"ok"`` if a policy fits on all ranks, else ``"unknown"`` if one may, else ``"oom"``.

        If the files are of different jobs: ``"ok"`` if each file has a policy that fits.
        """
        if not self.is_one_job:
            return joint_outcome([one.result.outcome for one in self.ranks])
        outcomes = {policy.outcome for policy in self.policies}
        return next((outcome for outcome in ("ok", "unknown", "oom") if outcome in outcomes), "unknown")

    @property
    def worst(self) -> Rank[Comparison]:
        """The rank that decides: for which the fewest policies fit, and of these the one with the most live."""

        def key(rank: Rank[Comparison]) -> tuple[bool, bool, int, int]:
            own = self.decisive_of(rank)
            num_failing = sum(result.outcome == "oom" for result in rank.result)
            return own.outcome == "oom", own.outcome == "unknown", num_failing, rank.peak_live

        return max(self.ranks, key=key)

    def decisive_of(self, rank: Rank[Comparison]) -> ReplayResult:
        """Returns the replay of what a rank ran under; if that is not among them, the first one that fails, or any."""
        own = [result for result in rank.result if rank.result.is_own(result)]
        failing = [result for outcome in ("oom", "unknown") for result in rank.result if result.outcome == outcome]
        return (own or failing or list(rank.result))[0]

    def __repr__(self) -> str:
        device = "devices of their own" if self.capacity is None else format_bytes(self.capacity)
        outcomes = ", ".join(f"{policy.options.label} {policy.outcome}" for policy in self.policies) or self.outcome
        return f"<memlake.JobComparison of {self.title} on {device}: {outcomes}>"

    @property
    def sentence(self) -> str:
        """Which policies fit on all ranks, where the others fail, and what to do, as text."""
        total = self.title
        if not self.is_one_job:
            fits = [one.label for one in self.ranks if one.result.outcome == "ok"]
            return f"{len(fits)} of {total} fit under at least one policy. No setting is named for all of them."
        device = f"On a device of {format_bytes(self.capacity or 0)}"
        failing = [policy for policy in self.policies if policy.outcome == "oom"]
        deaths = "; ".join(
            f"{policy.options.label} runs out of memory on {len(policy.failing)} of {total} ({named(policy.failing)})"
            for policy in failing
        )
        undecided = next((policy for policy in self.policies if policy.outcome == "unknown"), None)
        if self.fitting:
            fit = f"all {total} fit under {listed([policy.options.label for policy in self.fitting])}"
            text = f"{device} {fit}" + (f"; {deaths}" if deaths else "") + f"; {self._what_to_do()}."
        elif undecided is not None:
            why = self[undecided.undecided[0]].result[undecided.options.label]
            text = (
                f"{device} it cannot be known whether all {total} fit: it is not known for "
                f"{self.names_of(undecided.undecided)}. {why.doubt or why.history.sentence}"
            )
        else:
            text = f"{device} no policy fits on all {total}: {deaths}. memlake fit tells how much each of them needs."
        return text + (" The files that could not be read may need more." if self.unreadable else "")

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object that ``memlake compare --json`` prints for several files, as a dict."""
        return self.head_to_json() | {
            "capacity": self.capacity,
            "capacity_origin": self.origin,
            "outcome": self.outcome,
            "worst": self.worst.label,
            "policies": [policy.to_json() for policy in self.policies],
            "ranks": self.ranks_to_json(Comparison.to_json),
            "sentence": self.sentence,
        }

    def _what_to_do(self) -> str:
        settings = self.ranks[0].facts.settings
        fitting = self.fitting
        own = [policy for policy in fitting if policy.options == settings.policy]
        if own:
            return f"{own[0].options.label} is what the job ran under, so it needs no other setting"
        ways = []
        if any(policy.options.name == default_policy() for policy in fitting):
            ways.append(f"use {default_policy()}")
        torchs = [policy for policy in fitting if isinstance(policy.options, TorchOptions)]
        if torchs:
            best = min(torchs, key=lambda policy: inf if policy.driver_ms is None else policy.driver_ms)
            note = settings.note_for(best.options)
            ways.append(f"set {settings.line_for(best.options)} on every rank" + (f" ({note})" if note else ""))
        if ways:
            return ", or ".join(ways)
        usable = [policy for policy in fitting if policy.options.name not in _FOR_COMPARISON]
        return f"use {usable[0].options.label}" if usable else "that is of no use for a job: the device must be larger"
