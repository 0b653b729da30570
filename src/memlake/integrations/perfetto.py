"""A trace for Perfetto (ui.perfetto.dev): counters of live and held memory, slices of steps, marks of shortages.

The format is the JSON of trace events: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from __future__ import annotations

import gzip
import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.analysis import compare, overview
from memlake.errors import ConfigError
from memlake.replaying.capacity import refuse_below_largest
from memlake.trace import Op
from memlake.trace.columns import is_free
from memlake.trace.live_bytes import live_bytes_by_row, rounded
from memlake.trace.losses import NO_STACKS

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import numpy.typing as npt

    from memlake.trace import Trace
    from memlake.units import Size

__all__ = ["is_perfetto_name", "lost_in_perfetto", "perfetto_events", "save_perfetto"]

ENDINGS = (".perfetto.json", ".perfetto.json.gz")
_SAMPLES = 20_000
"""The counters have at most about so many values each."""
_MOST_STREAMS = 32
_PROCESS = 1


def is_perfetto_name(path: Path) -> bool:
    """Returns whether the ending of a name says that the file is for Perfetto."""
    return path.name.endswith(ENDINGS)


def lost_in_perfetto(trace: Trace) -> list[str]:
    """Returns what the file cannot hold of a trace: the rest of a sentence about the file, one each."""
    lost = ["leaves out single requests and frees, segments and blocks; it has what was live and held"]
    if trace.context is not None:
        lost.append(NO_STACKS)
    if trace.time is None:
        lost.append("has a row for each microsecond, because the trace has no times")
    return lost


def save_perfetto(trace: Trace, path: str | os.PathLike[str], capacity: Size | None = None) -> None:
    """Writes the file: all of it, or nothing.

    Args:
        trace: the trace.
        path: the file; a name that ends with ``.gz`` is packed.
        capacity: the memory of the device of the replays. None: what the trace gives or implies.

    Raises:
        ConfigError: if the ending is unknown, the capacity cannot be used, or the trace has no allocations.
        OSError: if the file cannot be written.
    """
    target = Path(path)
    if not is_perfetto_name(target):
        raise ConfigError(f"{target.name!r} is no name for Perfetto; hint: end it with {' or '.join(ENDINGS)}")
    if trace.num_allocations == 0:
        raise ConfigError("the trace has no allocations, so there is nothing to draw; hint: is it the right --device?")
    events = list(perfetto_events(trace, capacity, target.name))
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
    content = text.encode()
    if target.name.endswith(".gz"):
        content = gzip.compress(content, 6, mtime=0)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with part.open("xb") as file:
            file.write(content)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def perfetto_events(trace: Trace, capacity: Size | None = None, name: str = "trace") -> Iterator[dict[str, Any]]:
    """Yields the events of the file. Times are microseconds since the first row; the trace is `name` in errors.

    Raises:
        ConfigError: if the capacity cannot be used.
    """
    times = _times(trace)
    compared = compare(trace, capacity, timeline=_SAMPLES)
    if capacity is not None:  # a job may itself have asked for more than its device has
        refuse_below_largest(trace, compared.capacity, name)
    found = overview(trace, steps=True)
    yield _named("process_name", 0, f"memlake, device of {compared.capacity} bytes")
    yield _named("thread_name", 1, "steps")
    every = max(len(trace) // _SAMPLES, 1)
    live = live_bytes_by_row(trace)
    starts = np.arange(0, len(trace), every)
    yield from _counter("live", times[starts], np.maximum.reduceat(live, starts))
    for stream, values in _streams(trace):
        yield from _counter(f"live on stream {stream}", times[starts], values[starts])
    for result in compared:
        timeline = result.timeline
        assert timeline is not None
        rows = np.minimum(timeline.rows.astype(np.int64), len(trace) - 1)
        own = ", the job ran under it" if compared.is_own(result) else ""
        yield from _counter(f"held by {result.label}{own}", times[rows], timeline.held.astype(np.int64))
        if result.failure is not None:
            yield _mark(f"{result.label} runs out of memory", times[result.failure.row], result.failure.sentence)
    for shortage in trace.shortages:
        row = min(shortage.row, len(trace) - 1)
        yield _mark("the job ran out of memory", times[row], shortage.sentence)
    for step in found.steps:
        begin, end = times[step.start], times[min(step.stop, len(trace) - 1)]
        peak = {"live peak": step.peak_live, "first row": step.start, "rows": step.stop - step.start}
        shape = {"ph": "X", "pid": _PROCESS, "tid": 1, "ts": int(begin), "dur": int(max(end - begin, 1))}
        yield {"name": f"step {step.number}", "cat": "step", **shape, "args": peak}


def _times(trace: Trace) -> npt.NDArray[np.int64]:
    """Returns the time of each row. Perfetto draws time from left to right, so it never goes back here."""
    if trace.time is None:
        return np.arange(len(trace), dtype=np.int64)
    times = trace.time.astype(np.int64)
    # Rows from before the history have no time of their own.
    first = int(times[min(trace.num_carried, len(times) - 1)])
    times = np.maximum(times, first) - first
    never_back: npt.NDArray[np.int64] = np.maximum.accumulate(times)
    return never_back


def _streams(trace: Trace) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    births = np.flatnonzero(trace.op == Op.ALLOCATE.value)
    sizes = np.minimum(rounded(trace.bytes), np.uint64(2**40)).astype(np.int64)
    frees = np.flatnonzero(is_free(trace.op))
    streams, counts = np.unique(trace.stream[births], return_counts=True)
    for place in np.argsort(-counts, kind="stable")[:_MOST_STREAMS]:
        stream = int(streams[place])
        change = np.zeros(len(trace), np.int64)
        own = births[trace.stream[births] == stream]
        change[own] = sizes[own]
        of_frees = births[trace.id[frees]]
        is_own = trace.stream[of_frees] == stream
        change[frees[is_own]] = -sizes[of_frees[is_own]]
        yield stream, np.cumsum(change)


def _counter(name: str, times: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> Iterator[dict[str, Any]]:
    last = None
    for time, value in zip(times.tolist(), values.tolist(), strict=True):
        if value != last:
            yield {"name": name, "ph": "C", "pid": _PROCESS, "ts": time, "args": {"bytes": value}}
        last = value


def _mark(name: str, time: np.int64, sentence: str) -> dict[str, Any]:
    return {"name": name, "ph": "i", "s": "p", "pid": _PROCESS, "tid": 1, "ts": int(time), "args": {"why": sentence}}


def _named(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": _PROCESS, "tid": thread, "args": {"name": name}}
