"""The part of a report that is about one file: its figures as a dict, with large columns in blobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.analysis import advise, compare, overview
from memlake.errors import ConfigError
from memlake.html_report.address_map import address_map_of
from memlake.html_report.allocation_sites import AllocationSites
from memlake.html_report.blobs import UNIT, Blobs, in_units
from memlake.html_report.chosen_moments import chosen_moments
from memlake.html_report.flame import flame_of
from memlake.html_report.series import live_samples, recorded_samples, sample_rows, stream_series
from memlake.html_report.split_over_time import PARTS, split_over_time
from memlake.replaying.capacity import refuse_below_largest
from memlake.replaying.event_mode import EventMode
from memlake.replaying.running import run
from memlake.trace.categories import RULES
from memlake.trace.live_set import live_after

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from memlake.analysis import Advice, Comparison, Overview
    from memlake.analysis.setting import Setting
    from memlake.policies import Options
    from memlake.replaying import ReplayResult
    from memlake.trace import Trace
    from memlake.units import Size

__all__ = ["FileReport", "ReportWishes", "file_report"]

_MOST_SITES = 500
_MOST_POOLS = 100
_MOST_STEPS = 4000
_MOST_SAMPLES = 100_000


@dataclass(frozen=True)
class ReportWishes:
    """What a report of a file shall contain.

    Attributes:
        capacity: the memory of the device; None: what the file tells or implies.
        reserve: what to subtract from the memory of a named GPU for the CUDA context.
        limit: the most that each policy may hold.
        events: when memory that another stream used becomes free.
        policies: the policies; None: what the job ran under and all others.
        samples: the number of samples of each series.
        has_map: whether the address map is shown.
        most_spans: the number of spans of all maps above which small blocks are joined.
        steps: the numbers of the first and the last step to look at closely; None: the whole trace. The series have
            more samples then, and the moments of the map are in these steps.
        has_stacks: whether stacks are shown. File names in them may be private.
    """

    capacity: Size | None = None
    reserve: Size | None = None
    limit: Size | None = None
    events: str = "immediate"
    policies: tuple[Options, ...] | None = None
    samples: int = 8192
    has_map: bool = True
    most_spans: int = 600_000
    steps: tuple[int, int] | None = None
    has_stacks: bool = True


@dataclass(frozen=True)
class FileReport:
    """What a report says about one file.

    Attributes:
        name: the name of the file, or of the rank, in the report.
        overview: what the file tells.
        comparison: the replays under each policy.
        advice: the settings to use.
        figures: all of it as JSON values; large columns are in blobs.
    """

    name: str
    overview: Overview
    comparison: Comparison
    advice: Advice
    figures: dict[str, Any] = field(repr=False)

    @property
    def badness(self) -> tuple[bool, bool, int]:
        """Larger for a file that is worse off: it ran out of memory, it would not fit, or it holds more."""
        own = self.advice.own
        return self.overview.shortage is not None, not own.ran, max(own.peak_held, self.overview.held_peak or 0)

    @property
    def verdict(self) -> str:
        """What happened, in one sentence."""
        if self.overview.shortage is not None:
            return self.overview.shortage.sentence
        return self.advice.own.sentence


def file_report(
    trace: Trace, name: str, wishes: ReportWishes, blobs: Blobs, progress: Callable[[int, int], None] | None = None
) -> FileReport:
    """Makes the report of one file: an overview, a comparison, advice, and what a page draws of them.

    Args:
        trace: the trace of the file.
        name: what the file is called in the report.
        wishes: what the report shall contain.
        blobs: gets the large columns.
        progress: called with the number of finished parts of the work and of all parts.

    Raises:
        ConfigError: if an argument cannot be used, or the trace has nothing to report.
    """
    if trace.num_allocations == 0:
        raise ConfigError(
            f"{name!r} has no allocations, so there is nothing to report; "
            "hint: was the history recorded before the program allocated, and is it the right --device?"
        )
    report = progress or (lambda done, total: None)
    if not wishes.has_stacks:
        trace = trace.without_context()
    found = overview(trace, steps=True)
    window = _window(trace, found, wishes.steps)
    samples = _samples(trace, window, wishes.samples)
    report(1, 5)
    devices: dict[str, Any] = {"events": wishes.events, "limit": wishes.limit, "reserve": wishes.reserve}
    compared = compare(trace, wishes.capacity, wishes.policies, timeline=samples, **devices)
    if wishes.capacity is not None:  # a job may itself have asked for more than its device has: the report explains it
        refuse_below_largest(trace, compared.capacity, name)
    report(2, 5)
    advice = advise(trace, wishes.capacity, **devices)
    report(3, 5)
    rows = sample_rows(trace, samples)
    sites = AllocationSites(trace)
    moments = None
    if wishes.has_map:
        moments = chosen_moments(trace, found.steps, _failures(compared), len(compared), window)
    figures = _head(trace, name, found, compared, advice)
    figures |= {
        "unit": UNIT,
        "window": window,
        "series": _series(trace, rows, blobs),
        "streams": _streams(trace, rows, blobs),
        "sites": [_site(site) for site in sites.sites[:_MOST_SITES]],
        "peak": _peak(trace, found),
        "parts": PARTS,
        "moments": None if moments is None else blobs.add({"row": moments.astype(np.uint32)}),
        "num_moments": 0 if moments is None else len(moments),
    }
    site_of = np.minimum(sites.of_memory, _MOST_SITES).astype(np.uint32)
    figures["policies"] = [
        _policy(trace, result, compared, wishes, moments, site_of, blobs) for result in compared.results
    ]
    report(5, 5)
    return FileReport(name, found, compared, advice, figures)


def _window(trace: Trace, found: Overview, steps: tuple[int, int] | None) -> tuple[int, int] | None:
    """Returns the first and the last row of steps; None for the whole trace."""
    if steps is None:
        return None
    inside = [step for step in found.steps if steps[0] <= step.number <= steps[1]]
    if not inside:
        numbers = [step.number for step in found.steps]
        known = f"{numbers[0]} to {numbers[-1]}" if numbers else f"none, because {found.steps_known_by}"
        raise ConfigError(f"no step from {steps[0]} to {steps[1]} is known; hint: the known steps are {known}")
    return inside[0].start, inside[-1].stop - 1


def _samples(trace: Trace, window: tuple[int, int] | None, samples: int) -> int:
    """Returns the number of samples of the whole trace, so that a window of it has about as many as are wished."""
    if window is None:
        return samples
    part = (window[1] - window[0] + 1) / max(len(trace), 1)
    return min(max(int(samples / part), samples), _MOST_SAMPLES)


def _failures(compared: Comparison) -> list[int]:
    own = [] if compared.oom is None else [compared.oom.row]
    return own + [result.failure.row for result in compared if result.failure is not None]


def _head(trace: Trace, name: str, found: Overview, compared: Comparison, advice: Advice) -> dict[str, Any]:
    shortage = found.shortage
    trust = compared.reproduction
    return {
        "name": name,
        "source": found.source or "trace",
        "rows": len(trace),
        "first_row": trace.num_carried,
        "allocations": found.num_allocations,
        "num_streams": found.num_streams,
        "torch": str(found.settings.torch) if found.settings.policy is not None else "",
        "ran_under": "" if found.settings.policy is None else found.settings.policy.label,
        "history": found.history.kind,
        "history_text": found.history.text,
        "history_sentence": found.history.sentence,
        "capacity": compared.capacity,
        "origin": compared.origin,
        "live_peak": found.peak.nbytes,
        "held_peak": found.held_peak,
        "oom": None
        if shortage is None
        else {"row": shortage.shortage.row, "requested": shortage.shortage.requested, "kind": shortage.kind},
        "verdict": shortage.sentence if shortage is not None else advice.own.sentence,
        "outcome": advice.own.outcome if shortage is None else "oom",
        "compared": compared.sentence,
        "advice": {
            "sentence": advice.sentence,
            "overhead": advice.overhead_sentence if advice.tried and advice.own.ran else "",
            "search": advice.search,
            "recommendation": _setting(advice.recommendation),
            "alternatives": [_setting(one) for one in advice.alternatives],
            "with_memlake": _setting(advice.with_memlake),
        },
        "at_end": None
        if found.at_end is None
        else [[part.name, part.nbytes, part.meaning] for part in found.at_end.parts],
        "steps": [
            [step.number, step.start, step.stop, step.peak_live, step.end_live] for step in found.steps[:_MOST_STEPS]
        ],
        "steps_known_by": found.steps_known_by,
        "pools": dict(list(found.private_pools.items())[:_MOST_POOLS]),
        "free_in_pools": compared.free_in_private_pools,
        "trust": "" if trust is None else trust.sentence,
        "notes": list(found.notes),
    }


def _setting(setting: Setting | None) -> dict[str, str] | None:
    if setting is None:
        return None
    return {"line": setting.line, "gain": setting.gain, "price": setting.price, "note": setting.note}


def _series(trace: Trace, rows: npt.NDArray[np.int64], blobs: Blobs) -> dict[str, Any]:
    columns: dict[str, npt.NDArray[Any]] = {"row": rows.astype(np.uint32)}
    columns["live"] = in_units(live_samples(trace, rows))
    recorded = recorded_samples(trace, rows)
    if recorded is not None:
        columns["recorded"] = in_units(recorded)
    return blobs.add(columns)


def _streams(trace: Trace, rows: npt.NDArray[np.int64], blobs: Blobs) -> list[dict[str, Any]]:
    return [
        {
            "stream": one.stream,
            "allocations": one.num_allocations,
            "peak": one.peak,
            "live": blobs.add({"live": in_units(one.live)}),
        }
        for one in stream_series(trace, rows)
    ]


def _site(site: Any) -> list[Any]:
    return [site.text, site.filename, site.line]


def _peak(trace: Trace, found: Overview) -> dict[str, Any]:
    peak = found.peak
    live = None if peak.row is None else live_after(trace, peak.row)
    shown = peak.rows[:_MOST_SITES]
    return {
        "row": peak.row,
        "bytes": peak.nbytes,
        "count": peak.count,
        "sentence": peak.sentence,
        "sites": [
            {
                "site": row.site.text,
                "file": row.site.filename,
                "bytes": row.nbytes,
                "count": row.count,
                "categories": dict(row.categories),
            }
            for row in shown
        ],
        "num_sites": len(peak.rows),
        "categories": [[category, nbytes, RULES[category]] for category, nbytes in peak.categories.items()],
        "flame": {}
        if live is None
        else {
            "python": flame_of(trace, live, only_python=True),
            "all": flame_of(trace, live, only_python=False) if trace.context is not None else None,
        },
    }


def _policy(
    trace: Trace,
    result: ReplayResult,
    compared: Comparison,
    wishes: ReportWishes,
    moments: npt.NDArray[np.uint64] | None,
    site_of: npt.NDArray[np.uint32],
    blobs: Blobs,
) -> dict[str, Any]:
    """Returns the figures of one replay. Its blocks come from a second replay, which notes the moments only."""
    timeline = result.timeline
    assert timeline is not None
    figures = result.figures()
    figures |= {
        "label": result.label,
        "is_own": compared.is_own(result),
        "description": result.options.summary,
        "over_live": result.held_over_live if result.ran else None,
        "timeline": blobs.add(
            {
                # The last sample is the end of the replay, which the series of the trace do not have.
                "held": in_units(timeline.held[:-1]),
                "allocated": in_units(timeline.allocated[:-1]),
                "driver_ms": timeline.driver_ms[1:].astype(np.float32),
            }
        ),
        "map": None,
    }
    if moments is None:
        return figures
    mode = EventMode.parse(wishes.events)
    shown = run(trace, result.options, compared.capacity, mode, wishes.limit, moments=moments).moments
    assert shown is not None
    drawn = address_map_of(shown, site_of, wishes.most_spans // len(compared))
    split = split_over_time(shown)
    figures["map"] = blobs.add(drawn.columns) | {
        "segments": drawn.segments,
        "grain": drawn.grain,
        "moments": len(shown),
        "split": blobs.add({name: column.astype(np.float64) for name, column in split.items()}),
    }
    return figures
