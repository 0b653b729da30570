"""One side of a difference: a trace, or one step of it, with its figures at the peak and at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.analysis.held_peak import held_peak_of
from memlake.analysis.held_split import split_held
from memlake.analysis.step_peaks import step_peaks_of
from memlake.errors import ConfigError
from memlake.trace.live_bytes import live_bytes_by_row
from memlake.trace.live_set import live_after
from memlake.trace.peak import live_at_peak

if TYPE_CHECKING:
    from memlake.analysis.step_peaks import StepPeak
    from memlake.trace import History, JobSettings, Trace
    from memlake.trace.live_set import LiveSet

__all__ = ["DiffSide", "Moments", "side_of", "steps_named"]

_MOST_NAMES = 12


@dataclass(frozen=True, kw_only=True)
class DiffSide:
    """What one side of a difference is. Sizes are bytes.

    Attributes:
        name: the file, or the step; empty for a trace that is no file.
        source: what wrote the file, such as ``"PyTorch snapshot"``; empty if the file does not say.
        device: the number of the device; None if the file does not name one.
        step: the number of the step; None for a whole trace.
        num_rows: the number of rows.
        history: how much of the job's life the file records.
        settings: what is known of the job's own allocator.
        peak_live: the live peak, of a trace or of the step; None if the file has no history.
        held_peak: the most that PyTorch held until then, in the recorded part; None if the file does not tell.
        end_live: what was live at the end; each request rounded up to 512.
        end_held: what PyTorch held at the end; None if the file does not tell.
    """

    name: str
    source: str
    device: int | None
    step: int | None
    num_rows: int
    history: History
    settings: JobSettings
    peak_live: int | None
    held_peak: int | None
    end_live: int
    end_held: int | None

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a dict."""
        policy = self.settings.policy
        return {
            "name": self.name,
            "source": self.source,
            "device": self.device,
            "step": self.step,
            "rows": self.num_rows,
            "history": self.history.kind,
            "history_details": self.history.to_json(),
            "torch": self.settings.torch.to_json(),
            "accelerator": None if policy is None else self.settings.accelerator,
            "policy": None if policy is None else policy.name,
            "options": None if policy is None else policy.to_text(),
            "peak_live": self.peak_live,
            "held_peak": self.held_peak,
            "end_live": self.end_live,
            "end_held": self.end_held,
        }


@dataclass(frozen=True)
class Moments:
    """What is live at the peak and at the end of a side; None for a peak that is not known, or of no rows."""

    trace: Trace = field(repr=False)
    peak: LiveSet | None
    end: LiveSet | None


def side_of(trace: Trace, name: str, step: StepPeak | None = None) -> tuple[DiffSide, Moments]:
    """Returns one side of a difference, and what is live at its moments.

    Args:
        trace: the trace.
        name: its name.
        step: the step of the trace; None for the whole trace.
    """
    peak, end = _moments(trace, step)
    held_peak, end_held = _held(trace, step)
    source, device = trace.metadata.get("source"), trace.metadata.get("device")
    side = DiffSide(
        name=name,
        source=source[:100] if isinstance(source, str) else "",
        device=device if type(device) is int else None,
        step=None if step is None else step.number,
        num_rows=len(trace) if step is None else step.stop - step.start,
        history=trace.history,
        settings=trace.settings,
        peak_live=None if peak is None else peak.nbytes,
        held_peak=held_peak,
        end_live=0 if end is None else end.nbytes,
        end_held=end_held,
    )
    return side, Moments(trace, peak, end)


def steps_named(trace: Trace, numbers: tuple[int, int]) -> tuple[StepPeak, StepPeak, str]:
    """Returns two steps of a trace by their numbers, and how the steps are known.

    Raises:
        ConfigError: if the steps of the trace are not known, or it has no such step.
    """
    steps, known_by = step_peaks_of(trace)
    if not steps:
        raise ConfigError(
            f"the steps of this trace are not known ({known_by}), so no two of them can be compared; record with "
            "torch.profiler or an optimizer of torch.optim, whose annotations end the steps"
        )
    by_number = {step.number: step for step in steps}
    for number in numbers:
        if number not in by_number:
            known = ", ".join(str(step.number) for step in steps[:_MOST_NAMES])
            more = f", ... {steps[-1].number}" if len(steps) > _MOST_NAMES else ""
            raise ConfigError(f"there is no step {number} in this trace; there are: {known}{more}")
    return by_number[numbers[0]], by_number[numbers[1]], known_by


def _moments(trace: Trace, step: StepPeak | None) -> tuple[LiveSet | None, LiveSet | None]:
    if not len(trace):
        return None, None
    if step is None:
        return live_at_peak(trace), live_after(trace, len(trace) - 1)
    inside = live_bytes_by_row(trace)[step.start : step.stop]
    peak_row = step.start + int(np.argmax(inside))
    return live_after(trace, peak_row), live_after(trace, step.stop - 1)


def _held(trace: Trace, step: StepPeak | None) -> tuple[int | None, int | None]:
    """Returns the most that PyTorch held, and what it held at the end."""
    held_peak = held_peak_of(trace)
    if step is None:
        at_end = split_held(trace)
        return held_peak, None if at_end is None else at_end.held
    if held_peak is None or trace.recorded is None:
        return None, None
    held = sum(segment.nbytes for segment in trace.recorded.initial)
    most: int | None = None
    for event, after in trace.recorded.held_after_events():
        if event.row >= step.stop and step.stop < len(trace):
            break
        if event.row >= step.start:
            # What was held when the step begins counts, too.
            most = max(held, after) if most is None else max(most, after)
        held = after
    return held if most is None else most, held
