"""One trace, one device, several policies side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from memlake.analysis.advice import advice_for
from memlake.analysis.chosen_policies import chosen_policies
from memlake.analysis.workers import run_all
from memlake.replaying.capacity import capacity_of
from memlake.replaying.event_mode import EventMode
from memlake.replaying.running import require_trace, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from memlake.policies import Options
    from memlake.replaying.result import ReplayResult
    from memlake.trace import Trace
    from memlake.units import Size

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What `compare` gave. Iterating gives the results, in the order of the policies.

    Attributes:
        results: one per policy.
        capacity: of the device, in bytes.
        events: when events were complete.
        num_rows: of the trace.
        peak_live: of the trace, in bytes: no policy can do with less.
        peak_row: the first row at which it is reached; None if nothing is allocated.
    """

    results: tuple[ReplayResult, ...]
    capacity: int
    events: str
    num_rows: int
    peak_live: int
    peak_row: int | None

    def __iter__(self) -> Iterator[ReplayResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, policy: int | str) -> ReplayResult:
        """The result at a position, or the first one of a policy by its name or label."""
        if isinstance(policy, int):
            return self.results[policy]
        for result in self.results:
            if policy in (result.policy, result.label):
                return result
        raise KeyError(policy)

    @property
    def fitting(self) -> tuple[ReplayResult, ...]:
        """Those that found memory for every request."""
        return tuple(result for result in self.results if result.fits)

    @property
    def sentence(self) -> str:
        """Who fits, who does not and why, and what to do."""
        return advice_for(self)

    def to_json(self) -> dict[str, Any]:
        """What ``memlake compare --json`` prints, as a dict."""
        return {
            "capacity": self.capacity,
            "events": self.events,
            "rows": self.num_rows,
            "peak_live": self.peak_live,
            "policies": [result.to_json() for result in self.results],
            "sentence": self.sentence,
        }


def compare(
    trace: Trace,
    capacity: Size | None = None,
    policies: Iterable[str | Options] | str | Options | None = None,
    *,
    events: str = "immediate",
    limit: Size | None = None,
    timeline: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Replays a trace under several policies, on a device of the same size, on all cores.

    Args:
        trace: what to run.
        capacity: the memory of the device. None: what the trace tells, if it does.
        policies: names, PyTorch's configuration strings, or options; None for every policy with its defaults.
        events: when memory used on another stream is free; see `replay`.
        limit: what each may hold at most.
        timeline: how many samples to take of each; 0 for none.
        progress: called after each replay with how many are done, and how many there are.

    Raises:
        ConfigError: if an argument cannot be used.
    """
    require_trace(trace)
    chosen = chosen_policies(policies)
    size = capacity_of(trace, capacity)
    mode = EventMode.parse(events)
    jobs = [partial(run, trace, options, size, mode, limit, samples=timeline) for options in chosen]
    return Comparison(
        results=tuple(run_all(jobs, progress)),
        capacity=size,
        events=str(mode),
        num_rows=len(trace),
        peak_live=trace.peak_live,
        peak_row=trace.peak_row,
    )
