"""Series of a trace over its rows: live bytes, live bytes of each stream, and what PyTorch recorded as held."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlake.analysis.held_peak import held_peak_of
from memlake.trace import Op
from memlake.trace.columns import is_free
from memlake.trace.live_bytes import live_bytes_by_row, rounded
from memlake.trace.refused_rows import refused_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from memlake.trace import Trace

__all__ = ["StreamSeries", "live_samples", "recorded_samples", "sample_rows", "stream_series"]

_MOST_STREAMS = 8


class StreamSeries(NamedTuple):
    """The live bytes of one stream.

    Attributes:
        stream: its number; None stands for all streams that are not among the largest.
        num_allocations: the number of its allocations.
        peak: the most bytes that were live at once.
        live: the live bytes at the beginning of each sample.
    """

    stream: int | None
    num_allocations: int
    peak: int
    live: npt.NDArray[np.int64]


def sample_rows(trace: Trace, samples: int) -> npt.NDArray[np.int64]:
    """Returns the first row of each sample, as a replay with that many samples has them, without the end."""
    sampled = len(trace) - trace.num_carried
    every = max(-(-sampled // samples), 1)
    return np.arange(trace.num_carried, len(trace), every)


def live_samples(trace: Trace, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns the most live bytes of each sample."""
    return _maxima(live_bytes_by_row(trace), rows)


def recorded_samples(trace: Trace, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """Returns the most bytes that PyTorch itself held in each sample; None if the file does not tell."""
    recorded = trace.recorded
    if recorded is None or held_peak_of(trace) is None or not len(rows):
        return None
    held = np.zeros(len(trace) + 1, np.int64)
    initial = sum(segment.nbytes for segment in recorded.initial)
    for event in recorded.events:
        held[min(event.row, len(trace))] += event.held_change
    return _maxima(initial + np.cumsum(held)[: len(trace)], rows)


def stream_series(trace: Trace, rows: npt.NDArray[np.int64]) -> list[StreamSeries]:
    """Returns the series of the streams with the most live bytes, the largest first, and one of all others."""
    births = np.flatnonzero(trace.op == Op.ALLOCATE.value)
    sizes = np.minimum(rounded(np.where(refused_rows(trace), np.uint64(0), trace.bytes)), np.uint64(2**40))
    change = np.zeros(len(trace), np.int64)
    change[births] = sizes[births].astype(np.int64)
    frees = np.flatnonzero(is_free(trace.op))
    change[frees] = -change[births][trace.id[frees]]
    owner = np.full(len(trace), -1, np.int64)
    owner[births] = trace.stream[births]
    owner[frees] = trace.stream[births][trace.id[frees]]
    counts = np.bincount(owner[births]) if len(births) else np.zeros(0, np.int64)
    bytes_of = np.bincount(owner[births], change[births]) if len(births) else np.zeros(0)
    used = np.flatnonzero(counts)
    largest = used[np.argsort(-bytes_of[used], kind="stable")][:_MOST_STREAMS].tolist()

    def series(stream: int | None, is_own: npt.NDArray[np.bool_], count: int) -> StreamSeries:
        live = np.cumsum(np.where(is_own, change, 0))
        return StreamSeries(stream, count, int(live.max(initial=0)), live[rows])

    found = [series(stream, owner == stream, int(counts[stream])) for stream in largest]
    found.sort(key=lambda one: -one.peak)
    if len(largest) < len(used):
        is_other = (owner >= 0) & ~np.isin(owner, largest)
        found.append(series(None, is_other, int(np.count_nonzero(is_other[births]))))
    return found


def _maxima(values: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    if not len(rows):
        return values[:0]
    maxima: npt.NDArray[np.int64] = np.maximum.reduceat(values, rows)
    return maxima
