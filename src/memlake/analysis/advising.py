"""Advising: searches PyTorch's settings for those that make a job fit, or let it hold less."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from memlake.analysis.candidates import combinations, single_changes, what_is_tried
from memlake.analysis.choosing import choose, material_of, merit_of, setting_for
from memlake.analysis.chosen_policies import chosen_policies
from memlake.analysis.comparing import Comparison, compare
from memlake.analysis.needs import Need, chosen_needs
from memlake.analysis.setting import NOT_ON_A_GPU, Setting, install_line
from memlake.analysis.workers import replays_at_once, run_all
from memlake.policies import CachingOptions, TorchOptions
from memlake.printable import Printable
from memlake.replaying.event_mode import EventMode
from memlake.replaying.running import run, to_trace
from memlake.units import format_bytes
from memlake.wording import counted

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from memlake.replaying.result import ReplayResult
    from memlake.trace import Trace
    from memlake.trace.peak import PeakRow
    from memlake.units import Size

__all__ = ["Advice", "advise"]

_MOST_SITES = 5
_SHOWN = frozenset({"caching", "expandable", "lake"})


@dataclass(frozen=True, kw_only=True)
class Advice(Printable, table="advice"):
    """The result of `advise`. `print` shows it as ``memlake advise`` does.

    Attributes:
        comparison: the replays of what the job ran under, of PyTorch's two allocators with the job's settings, and of
            `lake`. It has the capacity, the history, the verification and the notes.
        own: the replay of what the job ran under, or of PyTorch's default if the trace does not tell.
        needs: what the job needs beside memory.
        tried: the replays of the search, the best first; empty if the file cannot decide, or nothing can fit.
        recommendation: the setting to use; None if the job should keep its own, or nothing fits.
        alternatives: at most three other settings.
        sites: if the live peak does not fit, the five call sites with the most live memory at the peak; else empty.
        search: what was tried and what was left out, as text.
    """

    comparison: Comparison
    own: ReplayResult
    needs: tuple[Need, ...] = ()
    tried: tuple[ReplayResult, ...] = ()
    recommendation: Setting | None = None
    alternatives: tuple[Setting, ...] = ()
    sites: tuple[PeakRow, ...] = ()
    search: str = ""

    @property
    def lower_bound(self) -> int:
        """The live peak in bytes. No allocator can hold less."""
        return self.comparison.peak_live

    @property
    def is_too_large(self) -> bool:
        """Whether more is live at once than the allocator may hold."""
        return self.lower_bound > self.own.budget

    @property
    def outcome(self) -> str:
        """``"ok"`` if PyTorch can run the job on the device, ``"oom"`` if no tried setting lets it; ``"unknown"``."""
        if self.is_too_large:
            return "oom"
        outcomes = {result.outcome for result in self.tried}
        return next((outcome for outcome in ("ok", "unknown", "oom") if outcome in outcomes), "unknown")

    @property
    def overhead(self) -> dict[str, int]:
        """What the job's own allocator holds beyond the live peak, by cause, in bytes.

        The parts are differences of peaks, which need not be at the same moment. ``rounding`` is what blocks have more
        than their requests. ``unused`` is held in free blocks at the peak: scattered, or cached.
        ``private_pools`` is free memory in private pools at the end, which the replay does not model.
        """
        allocated = max(self.own.peak_allocated, self.lower_bound)
        return {
            "rounding": allocated - self.lower_bound,
            "unused": max(self.own.peak_held - allocated, 0),
            "private_pools": self.comparison.free_in_private_pools,
        }

    @property
    def is_ruled_out(self) -> bool:
        """Whether a need rules out what the job ran under."""
        return bool(self.ruled_out_by(self.own))

    @property
    def overhead_sentence(self) -> str:
        """What the job's own allocator holds at its peak, by cause, as text."""
        parts = self.overhead
        private = parts["private_pools"]
        held_back = f"; private pools hold back {format_bytes(private)} more" if private else ""
        return (
            f"{self.own.label} holds {format_bytes(self.own.peak_held)} at its peak: {format_bytes(self.lower_bound)} "
            f"live, which no allocator can go below, {format_bytes(parts['rounding'])} rounding of blocks, and "
            f"{format_bytes(parts['unused'])} in free blocks, scattered or cached{held_back}."
        )

    def ruled_out_by(self, result: ReplayResult) -> tuple[str, ...]:
        """Returns the names of the needs that rule out the options of a result."""
        return tuple(need.name for need in self.needs if need.rules_out(result.options))

    @property
    def with_memlake(self) -> Setting | None:
        """memlake as PyTorch's allocator, if it holds less or stalls less often than the best setting; else None.

        It is not proposed for a job with needs: memlake maps memory as expandable segments do, and which needs it
        serves is not known. `memlake.torch` supports PyTorch 2.6 and later.
        """
        settings = self.comparison.settings
        if self.needs or settings.memlake or settings.accelerator != "cuda" or settings.torch.is_before((2, 6)):
            return None
        best = self.own if self.recommendation is None else self.recommendation.result
        if self._lake is None or not best.fits:
            return None
        is_smaller = self._lake.peak_held + material_of(self.lower_bound) <= best.peak_held
        if not is_smaller and self._lake.stalls >= best.stalls:
            return None
        steps = 0 if self.recommendation is None else self.recommendation.num_steps
        return Setting(result=self._lake, own=self.own, line=install_line(), note=NOT_ON_A_GPU, num_steps=steps)

    def __repr__(self) -> str:
        line = "no other setting" if self.recommendation is None else self.recommendation.line
        return f"<memlake.Advice for {format_bytes(self.comparison.capacity)}: {self.outcome}, {line}>"

    @property
    def sentence(self) -> str:
        """The advice as text."""
        device = f"a device of {format_bytes(self.comparison.capacity)}"
        if self.own.budget < self.comparison.capacity:
            device += f" with a limit of {format_bytes(self.own.budget)}"
        if self.is_too_large:
            return self._too_large(device)
        if self.comparison.settings.accelerator != "cuda":
            return "The job ran under torch_npu, whose allocator memlake does not have, so no settings can be compared."
        if self.outcome == "unknown":
            return self._undecided(device)
        if self.recommendation is not None:
            return f"Set {self.recommendation.sentence}"
        if self.own.fits and not self.is_ruled_out:
            gain = format_bytes(material_of(self.lower_bound))
            return (
                f"Keep {self.own.label}: it fits on {device} and holds {format_bytes(self.own.peak_held)}. No tried "
                f"setting holds at least {gain} less, or stalls less often."
            )
        more = ""
        if self._lake is not None:
            # lake maps memory as expandable segments do, so what a job needs may break with it as well.
            served = f"; whether it serves {self.needs[0].name} is not known" if self.needs else ""
            more = (
                f" The memory would suffice: memlake's lake holds {format_bytes(self._lake.peak_held)}, and "
                f"memlake.torch.install() makes PyTorch use it, which was not tried on a GPU yet{served}."
            )
        only = f" {self.needs[0].name} leaves only the allocator without expandable segments." if self.needs else ""
        return f"No tried setting of PyTorch makes the job fit on {device}.{only}{more}"

    @property
    def _lake(self) -> ReplayResult | None:
        """The replay under memlake's own policy; None if it does not fit."""
        return next((result for result in self.comparison if result.policy == "lake" and result.fits), None)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object that ``memlake advise --json`` prints, as a dict."""
        whole = self.comparison.to_json()
        policies = [
            {
                "policy": result.policy,
                "options": result.options.to_text(),
                "outcome": result.outcome,
                "peak_held": result.peak_held,
                "over_live": result.held_over_live,
                "stalls": result.stalls,
                "driver_ms": result.modelled_driver_ms,
                "is_own": self.comparison.is_own(result),
                "ruled_out_by": list(self.ruled_out_by(result)),
            }
            for result in self.comparison
        ]
        chosen = self.recommendation
        return whole | {
            "outcome": self.outcome,
            "lower_bound": self.lower_bound,
            "overhead": self.overhead if self.tried and self.own.ran else None,
            "overhead_sentence": self.overhead_sentence if self.tried and self.own.ran else "",
            "with_memlake": None if self.with_memlake is None else self.with_memlake.to_json(),
            "needs": [{"need": need.name, "sentence": need.sentence} for need in self.needs],
            "policies": policies,
            "tried": [
                {
                    "policy": result.policy,
                    "options": result.options.to_text(),
                    "outcome": result.outcome,
                    "peak_held": result.peak_held,
                    "stalls": result.stalls,
                    "driver_ms": result.modelled_driver_ms,
                }
                for result in self.tried
            ],
            "search": self.search,
            "recommendation": None if chosen is None else chosen.to_json(),
            "alternatives": [setting.to_json() for setting in self.alternatives],
            "largest_sites": [site.to_json() for site in self.sites],
            "sentence": self.sentence,
        }

    def _undecided(self, device: str) -> str:
        if self.comparison.outcome == "unknown":
            return self.comparison.sentence
        doubts = [result.doubt for result in (self.own, *self.tried) if result.doubt]
        why = doubts[0] if doubts else self.comparison.history.sentence
        return f"It cannot be known whether the job fits on {device}. {why}"

    def _too_large(self, device: str) -> str:
        live = format_bytes(self.lower_bound)
        over = format_bytes(self.lower_bound - self.own.budget)
        text = f"The job cannot fit on {device} under any allocator: {live} are live at once, {over} too much."
        if self.sites:
            text += f" The most is live by: {'; '.join(_site_in_words(row) for row in self.sites)}."
        return text


def advise(
    trace: Trace | str | os.PathLike[str],
    capacity: Size | None = None,
    *,
    needs: Iterable[str] | str = (),
    events: str = "immediate",
    limit: Size | None = None,
    reserve: Size | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Advice:
    """Searches PyTorch's settings for a job: replays a bounded list of them, in parallel on all cores.

    The same arguments give the same advice. If the file cannot decide whether the job fits, is of another accelerator,
    or has more live at once than the device has, nothing is searched.

    Args:
        trace: the trace to replay, or the path of its file.
        capacity: the memory of the device, as a size or as the name of a GPU such as ``"a100-80gb"``. None: the
            capacity that the trace gives or implies.
        needs: what the job needs beside memory: ``"ipc"``, ``"nccl-registration"``, ``"cuda-graphs"``, ``"wsl"``.
            Settings that are known to break it are ruled out.
        events: when memory that another stream used becomes free; see `replay`.
        limit: the most that the allocator may hold.
        reserve: what to subtract from the memory of a named GPU for the CUDA context. None: 512 MiB.
        progress: called after each replay of the search with the number of finished and of all replays so far.

    Raises:
        ConfigError: if an argument cannot be used.
        TraceError: if the file is not a trace. If there is no such file, it is also a FileNotFoundError.
    """
    trace = to_trace(trace)
    needed = chosen_needs(needs)
    shown = [options for options in chosen_policies(None, trace) if options.name in _SHOWN]
    comparison = compare(trace, capacity, shown, events=events, limit=limit, reserve=reserve)
    own = _own_of(comparison, trace)
    advice = Advice(comparison=comparison, own=own, needs=needed)
    if comparison.peak_live > own.budget:
        return replace(advice, sites=trace.peak().rows[:_MOST_SITES])
    if own.outcome == "unknown" or trace.settings.accelerator != "cuda":
        return advice
    replay = partial(_replay_all, trace, comparison.capacity, EventMode.parse(events), limit)
    first = single_changes(trace.settings, needed)
    tried = _ranked(replay(first, progress), own)
    pairs = [options for options in combinations(tried, trace.settings) if options not in first]
    tried = _ranked([*tried, *(replay(pairs, progress) if pairs else [])], own)
    return _with_choice(replace(advice, tried=tuple(tried), search=what_is_tried(trace.settings, needed)), trace)


def _own_of(comparison: Comparison, trace: Trace) -> ReplayResult:
    wanted = trace.settings.policy or CachingOptions()
    return next(result for result in comparison if result.options == wanted)


def _replay_all(
    trace: Trace,
    capacity: int,
    mode: EventMode,
    limit: Size | None,
    every: Sequence[TorchOptions],
    progress: Callable[[int, int], None] | None,
) -> list[ReplayResult]:
    jobs = [partial(run, trace, options, capacity, mode, limit) for options in every]
    return run_all(jobs, progress, most=replays_at_once(capacity))


def _ranked(results: Sequence[ReplayResult], own: ReplayResult) -> list[ReplayResult]:
    options = own.options if isinstance(own.options, TorchOptions) else None
    return sorted(results, key=lambda result: merit_of((result,), options))


def _with_choice(advice: Advice, trace: Trace) -> Advice:
    tried = [(result,) for result in advice.tried]
    best, others = choose(tried, (advice.own,), trace.settings, is_ruled_out=advice.is_ruled_out)
    if best is None:
        return advice
    settings = [setting_for(one[0], advice.own, trace.settings, len(trace.steps)) for one in (best, *others)]
    return replace(advice, recommendation=settings[0], alternatives=tuple(settings[1:]))


def _site_in_words(row: PeakRow) -> str:
    return f"{format_bytes(row.nbytes)} by {row.site.text} ({counted(row.count, 'allocation')})"
