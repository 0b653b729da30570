"""Fits: finds the smallest device on which a trace runs, for each policy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from memlake.analysis.chosen_policies import chosen_policies
from memlake.analysis.doubt import doubt_of_own
from memlake.analysis.reproducing import reproduce
from memlake.analysis.workers import run_all_with
from memlake.printable import Printable
from memlake.replaying.capacity import GRID, LARGEST_DEVICE
from memlake.replaying.event_mode import EventMode
from memlake.replaying.running import run, to_trace
from memlake.trace import History, JobSettings
from memlake.units import format_bytes
from memlake.wording import listed, plural

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from memlake.analysis.reproducing import Reproduction
    from memlake.policies import Options
    from memlake.replaying.result import ReplayResult
    from memlake.trace import RecordedShortage, Trace

__all__ = ["Fit", "FitResult", "fit"]

_LARGEST_RATIO = (22, 10)  # the search ends at this multiple of the live peak
_PRECISION = 1000  # the search stops when the interval is the live peak divided by this
# A trace of a few MiB needs PyTorch's segments of 2 and 20 MiB whatever its peak, so that much is always allowed.
_LEAST_ROOM = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """The smallest device that one policy needs.

    Attributes:
        min_capacity: the smallest capacity in bytes with which the trace ran; the job may need more if not
            `is_decided`. None: it ran with no tried capacity, or the file has no history, so that no capacity can be
            known.
        result: the replay with that capacity, or else the replay with the largest tried capacity.
    """

    min_capacity: int | None
    result: ReplayResult

    @property
    def over_live(self) -> float | None:
        """`min_capacity` divided by the live peak of the trace; None if there is no `min_capacity` or no live peak."""
        live = self.result.peak_live
        return self.min_capacity / live if self.min_capacity is not None and live else None

    @property
    def label(self) -> str:
        """The name of the policy, with the options that differ from the default."""
        return self.result.label

    @property
    def is_decided(self) -> bool:
        """False if the file cannot tell whether the job fits on that device: `compare` on it says *unknown*."""
        return self.result.outcome != "unknown"

    @property
    def shown(self) -> str:
        """The smallest device for a cell: ``"4 GiB"``, ``"at least 4 GiB"``, ``"unknown"``, or ``"none tried"``."""
        if self.min_capacity is None:
            return "unknown" if self.result.ran else "none tried"
        return ("" if self.is_decided else "at least ") + format_bytes(self.min_capacity)

    def __repr__(self) -> str:
        return f"<memlake.FitResult: {self.label} {self.shown}>"

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object that ``memlake fit --json`` prints for this policy, as a dict."""
        return self.result.figures() | {"min_capacity": self.min_capacity, "over_live": self.over_live}


@dataclass(frozen=True, kw_only=True)
class Fit(Printable, table="fit"):
    """The result of `fit`. Iterating yields the results in the order of the policies.

    `print` shows it as ``memlake fit`` does.

    Attributes:
        results: one result per policy.
        events: when events were complete; see `memlake.replay`.
        num_rows: the number of rows of the trace.
        peak_live: the live peak of the trace in bytes. No policy can hold less.
        largest_capacity: the largest capacity that was tried, in bytes.
        history: how much of the job's life the trace records.
        settings: what is known of the job's own allocator.
        oom: the last request for which the job's own allocator had no memory; None if there was none.
        reproduction: how well a replay of what the job ran under reproduces the file; None if the trace is no snapshot.
        notes: what a reader must know before trusting the figures, one text each.
    """

    results: tuple[FitResult, ...]
    events: str
    num_rows: int
    peak_live: int
    largest_capacity: int
    history: History = field(default_factory=History)
    settings: JobSettings = field(default_factory=JobSettings)
    oom: RecordedShortage | None = None
    reproduction: Reproduction | None = None
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[FitResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, policy: int | str) -> FitResult:
        """Returns the result at a position, or the first result of a policy by its name or label."""
        if isinstance(policy, int):
            return self.results[policy]
        for result in self.results:
            if policy in (result.result.policy, result.label):
                return result
        raise KeyError(policy)

    def __repr__(self) -> str:
        return f"<memlake.Fit: {', '.join(f'{one.label} {one.shown}' for one in self.results)}>"

    @property
    def is_decided(self) -> bool:
        """False if the file cannot tell how small the device may be.

        That is so without a history, and if for a policy `compare` cannot tell whether the job fits on the device that
        was found: the job's own allocator held more before the history, private pools hold memory back, or PyTorch
        refused a request that the replay serves.
        """
        return all(result.is_decided for result in self.results)

    @property
    def outcome(self) -> str:
        """``"ok"``, or ``"unknown"`` if the file cannot tell how small the device may be."""
        return "ok" if self.is_decided else "unknown"

    @property
    def doubt(self) -> str:
        """Why the file cannot tell how small the device may be, as text; empty if it can."""
        if self.is_decided:
            return ""
        return next((one.result.doubt for one in self.results if one.result.doubt), self.history.sentence)

    @property
    def sentence(self) -> str:
        """The smallest device of each policy, as text."""
        if self.history.kind == "state":
            return self._of_a_state
        sizes = sorted(
            (result for result in self.results if result.min_capacity is not None), key=lambda r: r.min_capacity or 0
        )
        part = "" if self.history.kind == "complete" else " in the recorded part"
        live = f"{format_bytes(self.peak_live)} are live at most{part}"
        parts = []
        if sizes:
            least = sizes[0]
            more = [f"{result.label} {format_bytes(result.min_capacity or 0)}" for result in sizes[1:]]
            # The replay of a trace with a doubt needs less than the job did.
            needs = "needs" if self.is_decided else "needs at least"
            parts.append(f"{least.label} {needs} a device of {format_bytes(least.min_capacity or 0)}")
            if more:
                parts.append(f"{listed(more)}")
        beyond = [result.label for result in self.results if result.min_capacity is None]
        if beyond:
            verb = plural(len(beyond), "does", "do")
            parts.append(f"{listed(beyond)} {verb} not run even on {format_bytes(self.largest_capacity)}")
        text = f"{live}: {', '.join(parts)}."
        found = [result.result.budget for result in sizes]
        if not all(map(self.history.can_tell_that_it_fits, found)):
            held = format_bytes(self.history.held_before)
            text += f" PyTorch held {held} when the record begins, so the job as a whole may need up to that."
        doubt = next((result.result.doubt for result in self.results if result.result.doubt), "")
        return f"{text} {doubt}".rstrip()

    @property
    def _of_a_state(self) -> str:
        held = [f"{result.label} {format_bytes(result.result.peak_held)}" for result in self.results]
        return (
            "The file cannot tell how small the device may be, because it has no history. No device below "
            f"{format_bytes(self.peak_live)} suffices, which is what was live. A program that allocates just that anew "
            f"holds: {listed(held)}."
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object that ``memlake fit --json`` prints, as a dict."""
        return {
            "events": self.events,
            "rows": self.num_rows,
            "peak_live": self.peak_live,
            "largest_capacity": self.largest_capacity,
            "is_decided": self.is_decided,
            "outcome": self.outcome,
            "doubt": self.doubt,
            "history": self.history.kind,
            "history_details": self.history.to_json(),
            "oom": None if self.oom is None else self.oom.to_json() | {"sentence": self.oom.sentence},
            "verification": None if self.reproduction is None else self.reproduction.to_json(),
            "notes": list(self.notes),
            "policies": [
                result.to_json() | {"is_own": result.result.options == self.settings.policy} for result in self.results
            ],
            "sentence": self.sentence,
        }


def fit(
    trace: Trace | str | os.PathLike[str],
    policies: Iterable[str | Options] | str | Options | None = None,
    *,
    events: str = "immediate",
    progress: Callable[[int, int], None] | None = None,
) -> Fit:
    """Finds the smallest device that each policy needs for a trace, by bisection, in parallel on all cores.

    The search goes from the live peak to 2.2 times the live peak in steps of 2 MiB, and ends when the interval is at
    most 0.1 % of the live peak. The result is the upper end of the interval, a capacity with which the trace ran. A
    policy may also fail with a slightly larger capacity than one with which it runs; the search does not detect that.

    Args:
        trace: the trace to replay, or the path of its file.
        policies: names, PyTorch's configuration strings, or options. None: as for `compare`.
        events: when memory that another stream used becomes free; see `replay`.
        progress: called after each policy with the number of finished policies and the number of all policies.

    Raises:
        ConfigError: if an argument cannot be used.
        TraceError: if the file is not a trace. If there is no such file, it is also a FileNotFoundError.
    """
    trace = to_trace(trace)
    chosen = chosen_policies(policies, trace)
    mode = EventMode.parse(events)
    largest = _largest_tried(trace.peak_live)
    jobs = [partial(_bisect, trace, options, mode, largest) for options in chosen]
    results, reproduction = run_all_with(partial(reproduce, trace), jobs, progress)
    if doubt := doubt_of_own(trace, mode):
        results = [_with_doubt(result, doubt) for result in results]
    return Fit(
        results=tuple(results),
        events=str(mode),
        num_rows=len(trace),
        peak_live=trace.peak_live,
        largest_capacity=largest,
        history=trace.history,
        settings=trace.settings,
        oom=trace.oom,
        reproduction=reproduction,
        notes=trace.caveats,
    )


def _with_doubt(found: FitResult, doubt: str) -> FitResult:
    return (
        replace(found, result=replace(found.result, doubt=found.result.doubt or doubt)) if found.result.ran else found
    )


def _largest_tried(peak_live: int) -> int:
    times, parts = _LARGEST_RATIO
    return min(_on_grid(max(-(-peak_live * times // parts), peak_live + _LEAST_ROOM)), LARGEST_DEVICE)


def _on_grid(nbytes: int) -> int:
    return max(-(-nbytes // GRID), 1) * GRID


def _bisect(trace: Trace, options: Options, events: EventMode, largest: int) -> FitResult:
    def on(capacity: int) -> ReplayResult:
        return run(trace, options, capacity, events, None)

    upper = on(largest)
    if not upper.ran or trace.history.kind == "state":
        return FitResult(min_capacity=None, result=upper)
    lowest = on(min(_on_grid(trace.peak_live), largest))
    if lowest.ran:
        return FitResult(min_capacity=lowest.capacity, result=lowest)
    # Fitting is not strictly monotonous in the capacity, so the choice of the middle decides which of two near results
    # is found. torch's own figures, with which these are compared, were found by rounding the middle down to the grid.
    lower = trace.peak_live
    gap = max(trace.peak_live // _PRECISION, GRID)
    while upper.capacity - lower > gap:
        middle = (lower + upper.capacity) // 2 // GRID * GRID
        if middle <= lower:
            break
        tried = on(middle)
        if tried.ran:
            upper = tried
        else:
            lower = middle
    return FitResult(min_capacity=upper.capacity, result=upper)
