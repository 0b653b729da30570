"""The work on one file of a job: a pure function of the file and of a question, which can run in any process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memlake.analysis import advise, compare, fit, overview
from memlake.analysis.held_peak import held_peak_of
from memlake.analysis.implied_device import device_of
from memlake.analysis.workers import run_all
from memlake.errors import ConfigError
from memlake.jobs.facts import facts_of
from memlake.replaying.event_mode import EventMode
from memlake.replaying.running import run
from memlake.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from memlake.jobs.facts import JobFacts
    from memlake.policies import Options
    from memlake.replaying import ReplayResult
    from memlake.replaying.capacity import Capacity
    from memlake.trace import History
    from memlake.units import Size

__all__ = ["Question", "RankAnswer", "answer_of"]


@dataclass(frozen=True)
class Question:
    """What is asked of one file. It can be pickled.

    Attributes:
        kind: a key of `_ANALYSES`.
        device: the device of a snapshot; None: the one with the most events.
        arguments: the arguments of the analysis.
    """

    kind: str
    device: int | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RankAnswer:
    """The answer of one file. It can be pickled.

    Attributes:
        facts: what the file tells about its job.
        history: how much of the job's life the file records.
        num_rows: the number of rows of the trace.
        peak_live: the live peak in bytes; a refused request counts, because a replay must serve it.
        held_peak: the most that PyTorch itself held in the recorded part; None if the file does not tell.
        num_steps: the number of steps in the trace.
        result: what the analysis returned.
    """

    facts: JobFacts
    history: History
    num_rows: int
    peak_live: int
    held_peak: int | None
    num_steps: int
    result: Any


def answer_of(path: str, question: Question) -> RankAnswer:
    """Loads a file and answers a question about it. The same file and question give the same answer.

    Raises:
        ConfigError: if an argument cannot be used.
        TraceError: if the file is not a trace.
    """
    trace = Trace.load(path, device=question.device)
    return RankAnswer(
        facts=facts_of(trace),
        history=trace.history,
        num_rows=len(trace),
        peak_live=trace.peak_live,
        held_peak=held_peak_of(trace),
        num_steps=len(trace.steps),
        result=_ANALYSES[question.kind](trace, **question.arguments),
    )


def _device(trace: Trace) -> Capacity | None:
    """Returns the device that the trace tells or implies; None if it implies none."""
    try:
        return device_of(trace, None)
    except ConfigError:
        return None


def _replays(
    trace: Trace, pairs: Sequence[tuple[Options, int]], events: str, limit: Size | None
) -> tuple[ReplayResult, ...]:
    """Returns the replays under several policies, each on a device of its own size."""
    mode = EventMode.parse(events)

    def job(options: Options, capacity: int) -> Callable[[], ReplayResult]:
        return lambda: run(trace, options, capacity, mode, limit)

    return tuple(run_all([job(options, capacity) for options, capacity in pairs])) if pairs else ()


_ANALYSES: dict[str, Callable[..., Any]] = {
    "overview": overview,
    "compare": compare,
    "fit": fit,
    "advise": advise,
    "device": _device,
    "replays": _replays,
}
