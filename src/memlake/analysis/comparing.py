"""Comparisons: replays one trace on one device under several policies."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from memlake.analysis.chosen_policies import chosen_policies
from memlake.analysis.comparison_sentence import sentence_of
from memlake.analysis.doubt import doubt_of_own
from memlake.analysis.implied_device import device_of
from memlake.analysis.reproducing import reproduce
from memlake.analysis.workers import replays_at_once, run_all_with
from memlake.printable import Printable
from memlake.replaying.event_mode import EventMode
from memlake.replaying.running import run, to_trace
from memlake.trace import History, JobSettings
from memlake.units import format_bytes

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from memlake.analysis.reproducing import Reproduction
    from memlake.policies import Options
    from memlake.replaying.result import ReplayResult
    from memlake.trace import RecordedShortage, Trace
    from memlake.units import Size

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True, kw_only=True)
class Comparison(Printable, table="comparison"):
    """The result of `compare`. Iterating yields the results in the order of the policies.

    `print` shows it as ``memlake compare`` does.

    Attributes:
        results: one result per policy.
        capacity: the memory of the device in bytes.
        events: when events were complete; see `memlake.replay`.
        num_rows: the number of rows of the trace.
        peak_live: the live peak of the trace in bytes. No policy can hold less.
        peak_row: the first row at which the live peak is reached; None if the trace allocates nothing.
        history: how much of the job's life the trace records.
        settings: what is known of the job's own allocator.
        oom: the last request for which the job's own allocator had no memory; None if there was none.
        reproduction: how well a replay of what the job ran under reproduces the file; None if the trace is no snapshot.
        notes: what a reader must know before trusting the figures, one text each.
        origin: where the capacity comes from, as a sentence; empty if the caller gave it as a size.
        free_in_private_pools: the free bytes in private pools at the end of the trace, which replays do not model.
    """

    results: tuple[ReplayResult, ...]
    capacity: int
    events: str
    num_rows: int
    peak_live: int
    peak_row: int | None
    history: History = field(default_factory=History)
    settings: JobSettings = field(default_factory=JobSettings)
    oom: RecordedShortage | None = None
    reproduction: Reproduction | None = None
    notes: tuple[str, ...] = ()
    origin: str = ""
    free_in_private_pools: int = 0

    def __iter__(self) -> Iterator[ReplayResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, policy: int | str) -> ReplayResult:
        """Returns the result at a position, or the first result of a policy by its name or label."""
        if isinstance(policy, int):
            return self.results[policy]
        for result in self.results:
            if policy in (result.policy, result.label):
                return result
        raise KeyError(policy)

    @property
    def fitting(self) -> tuple[ReplayResult, ...]:
        """The results that show that the job fits."""
        return tuple(result for result in self.results if result.fits)

    @property
    def outcome(self) -> str:
        """``"ok"`` if any policy fits, ``"unknown"`` if the file cannot decide it for some, ``"oom"`` if none fits."""
        outcomes = {result.outcome for result in self.results}
        return next(outcome for outcome in ("ok", "unknown", "oom") if outcome in outcomes)

    def is_own(self, result: ReplayResult) -> bool:
        """Whether a result is that of what the job ran under, with its own settings."""
        return result.options == self.settings.policy

    @property
    def after_oom(self) -> str:
        """What a fit does not say, as text: a job that died at its last request would have gone on. Else empty."""
        if self.oom is None or not self.oom.is_last:
            return ""
        return "The job died at its last request, so what it would have needed after it is not in the file."

    def __repr__(self) -> str:
        outcomes = ", ".join(f"{result.label} {result.outcome}" for result in self.results)
        return f"<memlake.Comparison on {format_bytes(self.capacity)}: {outcomes}>"

    @property
    def sentence(self) -> str:
        """Which policies fit, why the others do not, and what to do, as text."""
        return sentence_of(self)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object that ``memlake compare --json`` prints, as a dict."""
        return {
            "capacity": self.capacity,
            "capacity_origin": self.origin,
            "events": self.events,
            "rows": self.num_rows,
            "peak_live": self.peak_live,
            "outcome": self.outcome,
            "history": self.history.kind,
            "history_details": self.history.to_json(),
            "oom": None if self.oom is None else self.oom.to_json() | {"sentence": self.oom.sentence},
            "verification": None if self.reproduction is None else self.reproduction.to_json(),
            "notes": list(self.notes),
            "policies": [result.figures() | {"is_own": self.is_own(result)} for result in self.results],
            "sentence": self.sentence,
        }


def compare(
    trace: Trace | str | os.PathLike[str],
    capacity: Size | None = None,
    policies: Iterable[str | Options] | str | Options | None = None,
    *,
    events: str = "immediate",
    limit: Size | None = None,
    reserve: Size | None = None,
    timeline: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Replays a trace on a device of a given size under several policies, in parallel on all cores.

    Args:
        trace: the trace to replay, or the path of its file.
        capacity: the memory of the device, as a size or as the name of a GPU such as ``"a100-80gb"``. None: the
            capacity that the trace gives or implies; `Comparison.origin` says which.
        policies: names, PyTorch's configuration strings, or options. None: what the job ran under, if the trace tells,
            and then every other policy. PyTorch's allocators get the settings of the job, the others their defaults.
        events: when memory that another stream used becomes free; see `replay`.
        limit: the most that each policy may hold.
        reserve: what to subtract from the memory of a named GPU for the CUDA context. None: 512 MiB.
        timeline: the number of samples to take of each replay; 0 for none.
        progress: called after each replay with the number of finished replays and the number of all replays.

    Raises:
        ConfigError: if an argument cannot be used.
        TraceError: if the file is not a trace. If there is no such file, it is also a FileNotFoundError.
    """
    trace = to_trace(trace)
    chosen = chosen_policies(policies, trace)
    size, origin = device_of(trace, capacity, reserve)
    mode = EventMode.parse(events)
    jobs = [partial(run, trace, options, size, mode, limit, samples=timeline) for options in chosen]
    results, reproduction = run_all_with(partial(reproduce, trace), jobs, progress, most=replays_at_once(size))
    # If the replay of what the job ran under is wrong, the others lack the same.
    if own := [result for result in results if result.options == trace.settings.policy]:
        doubt = own[0].doubt
    else:
        is_refused = trace.oom is not None and size <= (trace.oom.capacity or 0)
        doubt = doubt_of_own(trace, mode) if is_refused else ""
    if doubt:
        results = [replace(result, doubt=result.doubt or doubt) if result.ran else result for result in results]
    return Comparison(
        results=tuple(results),
        capacity=size,
        events=str(mode),
        num_rows=len(trace),
        peak_live=trace.peak_live,
        peak_row=trace.peak_row,
        history=trace.history,
        settings=trace.settings,
        oom=trace.oom,
        reproduction=reproduction,
        notes=trace.caveats,
        origin=origin,
        free_in_private_pools=trace.free_in_private_pools,
    )
