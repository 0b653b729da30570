"""The steps of a job and their live peaks: from the steps of a trace, from annotations, or from a period."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.analysis.request_period import find_period
from memlake.trace.live_bytes import live_bytes_by_row

if TYPE_CHECKING:
    from memlake.trace import Trace

__all__ = ["StepPeak", "step_peaks_of"]

_PREFIXES = ("ProfilerStep#", "Optimizer.step#")


@dataclass(frozen=True)
class StepPeak:
    """One step of a job.

    Attributes:
        number: the number of the step.
        start: its first row.
        stop: the row after its last one.
        peak_live: the largest sum of live requests in the step, each rounded up to 512, in bytes.
        end_live: the same sum at the end of the step.
    """

    number: int
    start: int
    stop: int
    peak_live: int
    end_live: int

    def to_json(self) -> dict[str, Any]:
        """Returns all fields as a dict."""
        return asdict(self)


def step_peaks_of(trace: Trace) -> tuple[tuple[StepPeak, ...], str]:
    """Returns the steps of a trace and how they are known; no steps and why they are not known.

    A step of a snapshot ends where an annotation ends that PyTorch's profiler or its optimizers make. The rows after
    the last end, an incomplete step, are the last step. Without such annotations the steps are inferred from a period
    of the requests; the rows before the first and after the last whole period are in no step then.
    """
    if trace.steps:
        found, how = [(step.number, step.start, step.stop) for step in trace.steps], "the rows of the trace name them"
    else:
        found, how = _from_annotations(trace)
    if not found:
        found, how = _from_period(trace)
    if not found:
        return (), how
    live = live_bytes_by_row(trace)
    steps = tuple(
        StepPeak(number, start, stop, int(live[start:stop].max()), int(live[stop - 1])) for number, start, stop in found
    )
    return steps, how


def _from_period(trace: Trace) -> tuple[list[tuple[int, int, int]], str]:
    if trace.history.kind == "state":
        return [], "the file has no history"
    period, reason = find_period(trace)
    if period is None:
        return [], f"no rows and no annotations name them, and no period shows them: {reason}"
    return [(number, first, last) for number, (first, last) in enumerate(pairwise(period.rows))], period.sentence


def _from_annotations(trace: Trace) -> tuple[list[tuple[int, int, int]], str]:
    if trace.context is None or trace.time is None:
        return [], ""
    device = trace.metadata.get("device")
    for prefix in _PREFIXES:
        times = sorted(
            one.time
            for one in trace.context.annotations
            if one.stage == "END" and one.name.startswith(prefix) and one.device in (device, -1)
        )
        # Carried rows have no time of their own, so they belong to the first step.
        rows = trace.time[trace.num_carried :]
        if not times or len(rows) == 0 or (np.diff(rows) < 0).any():
            continue
        ends = (np.searchsorted(rows, np.array(times), "right") + trace.num_carried).tolist()
        edges = sorted({0, *ends, len(trace)})
        spans = [(first, last) for first, last in pairwise(edges) if last > first]
        how = f"the annotations {prefix.rstrip('#')} end them"
        return [(number, first, last) for number, (first, last) in enumerate(spans)], how
    return [], ""
