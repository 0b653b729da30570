"""Advice for a job of several ranks: one setting that holds for every rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memlake.analysis import Advice
from memlake.analysis.setting import head_to_json, sentence_about
from memlake.jobs.answer import JobAnswer, named
from memlake.jobs.comparisons import joint_outcome
from memlake.units import format_bytes
from memlake.wording import counted

if TYPE_CHECKING:
    from memlake.analysis import Reproduction
    from memlake.analysis.setting import Setting
    from memlake.jobs.answer import Rank
    from memlake.policies import Options
    from memlake.replaying import ReplayResult

__all__ = ["JobAdvice", "JobSetting"]


@dataclass(frozen=True)
class JobSetting:
    """Options of PyTorch's allocator for all ranks. Its gain and its price are those of the worst rank for each.

    Attributes:
        settings: the options on each rank, compared with what the rank ran under, by the label of the rank.
        titles: what a rank is called in sentences, by its label.
    """

    settings: dict[str, Setting]
    titles: dict[str, str]

    @property
    def options(self) -> Options:
        """The options."""
        return self._any.result.options

    @property
    def line(self) -> str:
        """The assignment that makes PyTorch use the options."""
        return self._any.line

    @property
    def note(self) -> str:
        """What a reader must know about the line; empty if there is nothing."""
        return self._any.note

    @property
    def largest(self) -> str:
        """The label of the rank that holds the most under the options."""
        return max(self.settings, key=lambda label: self.settings[label].result.peak_held)

    @property
    def rescued(self) -> tuple[str, ...]:
        """The labels of the ranks that run out of memory under what they ran under."""
        return tuple(label for label, setting in self.settings.items() if not setting.own.ran)

    @property
    def saved(self) -> int | None:
        """How many bytes less the rank that holds the most holds, before and after; None if a rank ran out before."""
        if self.rescued:
            return None
        before = max(setting.own.peak_held for setting in self.settings.values())
        return before - self.settings[self.largest].result.peak_held

    @property
    def gain(self) -> str:
        """What the setting improves on the worst rank, as text."""
        largest = self.settings[self.largest].result
        left = format_bytes(largest.budget - largest.peak_held)
        held = f"{self.titles[self.largest]} holds the most, {format_bytes(largest.peak_held)}, and leaves {left}"
        own = self._any.own.label
        if self.rescued:
            return f"all {len(self.settings)} fit ({own} runs out of memory on {named(self.rescued)}); {held}"
        saved = self.saved or 0
        change = f"{format_bytes(abs(saved))} {'less' if saved > 0 else 'more'} than the most under {own}"
        return f"{held}; {change if saved else f'that is the most under {own}, too'}"

    @property
    def price(self) -> str:
        """What the setting costs on the rank that pays the most, as text: driver time and stalls."""
        every = self.settings
        slowest = max(every, key=lambda label: _driver_ms(every[label].result, every[label].num_steps))
        stalled = max(every, key=lambda label: every[label].result.stalls)
        per_step = " per step" if every[slowest].num_steps else ""
        time = f"{_driver_ms(every[slowest].result, every[slowest].num_steps):.1f} ms in the driver{per_step}"
        times, stalls = [self.titles[slowest]], [self.titles[stalled]] if (number := self._most_stalls) else []
        if not self.rescued:
            own = [setting.own for setting in every.values()]
            before = max(_driver_ms(setting.own, setting.num_steps) for setting in every.values())
            times.append(f"{own[0].label}: {before:.1f}")
            stalls.append(f"{own[0].label}: {max(result.stalls for result in own)}")
        what = f"at most {counted(number, 'stall')}" if number else "no stalls"
        return f"at most {time} ({'; '.join(times)}), {what}" + (f" ({'; '.join(stalls)})" if stalls else "")

    @property
    def sentence(self) -> str:
        """The setting, its gain and its price, as text."""
        return sentence_about(self)

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as a dict."""
        return head_to_json(self) | {
            "saved": self.saved,
            "rescued": list(self.rescued),
            "peak_held": self.settings[self.largest].result.peak_held,
            "peak_held_rank": self.largest,
            "ranks": [{"label": label} | setting.to_json() for label, setting in self.settings.items()],
            "sentence": self.sentence,
        }

    @property
    def _most_stalls(self) -> int:
        return max(setting.result.stalls for setting in self.settings.values())

    @property
    def _any(self) -> Setting:
        return next(iter(self.settings.values()))


@dataclass(frozen=True, kw_only=True)
class JobAdvice(JobAnswer[Advice], table="job_advice"):
    """The result of `Ranks.advise`.

    Attributes:
        recommendation: the setting for all ranks; None if the job should keep its own, nothing fits on all ranks, a
            file cannot decide it, or the files are of different jobs.
        alternatives: at most three other settings that fit on all ranks.
        num_tried: how many settings were replayed on every rank.
        some_fit: whether a tried setting, the job's own included, fits on every rank.
        origin: where the size of the device comes from, if it was not given and is the same for all ranks.
    """

    recommendation: JobSetting | None = None
    alternatives: tuple[JobSetting, ...] = ()
    num_tried: int = 0
    some_fit: bool = False
    origin: str = ""

    def reproduction_of(self, rank: Rank[Advice]) -> Reproduction | None:
        """Returns how well a replay of what a rank ran under reproduces its file."""
        return rank.result.comparison.reproduction

    @property
    def capacity(self) -> int | None:
        """The memory of the device; None if the files are of different jobs and each has a device of its own."""
        sizes = {one.result.comparison.capacity for one in self.ranks}
        return sizes.pop() if len(sizes) == 1 else None

    @property
    def outcome(self) -> str:
        """``"ok"`` if PyTorch can run every rank with one setting, ``"oom"`` if a rank cannot run, or ``"unknown"``."""
        joint = joint_outcome([one.result.outcome for one in self.ranks])
        return "oom" if joint == "ok" and self.is_one_job and not self.some_fit else joint

    @property
    def worst(self) -> Rank[Advice]:
        """The rank that decides: one that cannot fit, else one that runs out under its own, else with the most held."""

        def key(rank: Rank[Advice]) -> tuple[bool, bool, bool, int]:
            own = rank.result.own
            held = rank.peak_live if rank.result.is_too_large or not own.ran else own.peak_held
            return rank.result.outcome == "oom", rank.result.outcome == "unknown", not own.ran, held

        return max(self.ranks, key=key)

    def __repr__(self) -> str:
        device = "devices of their own" if self.capacity is None else format_bytes(self.capacity)
        line = "no other setting" if self.recommendation is None else self.recommendation.line
        return f"<memlake.JobAdvice of {self.title} on {device}: {self.outcome}, {line}>"

    @property
    def sentence(self) -> str:
        """The advice as text."""
        total = self.title
        more = " The files that could not be read may need more." if self.unreadable else ""
        if not self.is_one_job:
            return f"No setting is named for all {total}. Ask for the files of one job."
        device = f"a device of {format_bytes(self.capacity or 0)}"
        by_outcome: dict[str, list[Rank[Advice]]] = {}
        for one in self.ranks:
            by_outcome.setdefault(one.result.outcome, []).append(one)
        for outcome, what in (("oom", "cannot fit"), ("unknown", "cannot be decided")):
            if outcome in by_outcome:
                ranks = by_outcome[outcome]
                labels = named([one.label for one in ranks])
                who = f"{len(ranks)} of {total} {what} on {device} ({labels})"
                why = f"{self.worst.file.title}: {self.worst.result.sentence}"
                return f"No setting can be recommended for all of them: {who}. {why}{more}"
        if self.recommendation is not None:
            return f"Set on every rank {self.recommendation.sentence}{more}"
        if not self.some_fit:
            each = "though each rank has one that fits"
            return f"No tried setting of PyTorch makes all {total} fit on {device}, {each}.{more}"
        own = self.worst.result.own
        return (
            f"Keep {own.label}: all {total} fit on {device}, and at most {format_bytes(own.peak_held)} are held "
            f"({self.worst.file.title}). No tried setting lets the worst rank hold clearly less, or stalls less often."
            f"{more}"
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object that ``memlake advise --json`` prints for several files, as a dict."""
        chosen = self.recommendation
        return self.head_to_json() | {
            "capacity": self.capacity,
            "capacity_origin": self.origin,
            "outcome": self.outcome,
            "worst": self.worst.label,
            "num_tried": self.num_tried,
            "recommendation": None if chosen is None else chosen.to_json(),
            "alternatives": [setting.to_json() for setting in self.alternatives],
            "ranks": self.ranks_to_json(Advice.to_json),
            "sentence": self.sentence,
        }


def _driver_ms(result: ReplayResult, num_steps: int) -> float:
    """Returns the modelled driver time, per step if the trace has steps."""
    return (result.modelled_driver_ms or 0.0) / (num_steps or 1)
