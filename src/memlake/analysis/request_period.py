"""The period of a job's requests: how many requests it makes before it makes the same ones again.

A training or inference loop asks for the same sizes, on the same streams, at the same places of the code, in the same
order, in each round. Two requests are equal here if all of these are equal; if no period shows, the sizes are left out,
because a loop may work on batches of different lengths. The search cannot be misled: a lag is only a candidate until
the requests at that lag are compared one by one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlake.trace import Op
from memlake.trace.call_sites import is_python
from memlake.trace.live_bytes import live_bytes_by_row
from memlake.trace.refused_rows import refused_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from memlake.trace import Trace

    _Numbers = npt.NDArray[np.int64]

__all__ = ["RequestPeriod", "find_period"]

LEAST_EQUAL = 0.9
"""So many of the requests must be equal to those one period later."""
LEAST_ROUNDS = 3
LEAST_COVERED = 0.25
"""The rounds must have so many of all requests. Less is a loop inside something else."""
LARGEST_DRIFT = 0.1
"""From one round to the next, what is live may change by so much of what a round allocates and frees. The layers of a
model repeat, too, but a forward pass keeps their activations, and a backward pass frees them."""
_AS_GOOD = 0.01
_AS_LONG = 0.9
# Frames of one call that does a part of a step: of a module, of an optimizer, of autograd.
_PART = re.compile(r"[/\\]torch[/\\](nn[/\\]modules|optim|autograd)[/\\]")
_WIDEST_WINDOW = 2**17
_MOST_WINDOWS = 24
_MOST_CANDIDATES = 24


@dataclass(frozen=True)
class RequestPeriod:
    """Rounds of requests that repeat.

    Attributes:
        length: the requests of one round.
        rows: the row of the first request of each round, and the row at which the last round ends.
        equal: the share of the requests that are equal to those one period later.
        with_sizes: whether the sizes are equal, too, or only the streams and the places of the code.
    """

    length: int
    rows: tuple[int, ...]
    equal: float
    with_sizes: bool

    @property
    def sentence(self) -> str:
        """How the rounds are known, without a full stop."""
        share = "100 %" if self.equal == 1 else f"{min(100 * self.equal, 99.9):.1f} %"
        what = "" if self.with_sizes else " by stream and call site, with other sizes"
        return (
            f"inferred from a period of {self.length:,} requests ({share} of them equal to those one period "
            f"later{what}), each begun where the least is live; a loop inside the real steps, or several of them "
            "together, can look the same"
        )


def find_period(trace: Trace) -> tuple[RequestPeriod | None, str]:
    """Returns the period of the requests of a trace, or None and the reason, without a full stop."""
    asked = (trace.op == Op.ALLOCATE.value) & ~refused_rows(trace)
    asked[: trace.num_carried] = False
    rows = np.flatnonzero(asked).astype(np.int64)
    if len(rows) < 2 * LEAST_ROUNDS:
        return None, f"{len(rows)} requests are too few for a period"
    repeated: list[_Repeated] = []
    for codes, with_sizes in _codes(trace, rows):
        if (codes == codes[0]).all():
            return None, "all requests are alike, so each may be a step or none"
        repeated += _repeated(codes, with_sizes)
    if not repeated:
        return None, "no part of the requests repeats often enough and alike enough"
    whole = [one for one in repeated if not any(one.is_inside(other) for other in repeated)]
    live = live_bytes_by_row(trace)
    found = [(one, _edges(rows, live, one)) for one in whole]
    steady = [(one, edges) for one, edges in found if edges is not None and _drift(live, edges) <= LARGEST_DRIFT]
    if not steady:
        return None, "what repeats does not return to the memory that it began with, as the layers of a model do not"
    outside = [(one, edges) for one, edges in steady if not _is_inside_a_step(trace, edges)]
    if not outside:
        return None, "what repeats is inside one call of a module or an optimizer, as the layers of a model are"
    # Some batches in a row may have equal lengths; the loop is what goes on longer. Two periods are a period, too: the
    # shortest is the real one.
    most = max(one.covered for one, _ in outside)
    long = [(one, edges) for one, edges in outside if one.covered >= _AS_LONG * most]
    best, edges = min(long, key=lambda pair: (not pair[0].with_sizes, pair[0].lag))
    return RequestPeriod(best.lag, tuple(edges.tolist()), best.equal, best.with_sizes), ""


class _Repeated(NamedTuple):
    """A part of the requests, from `first` to `last`, that are mostly equal to those at the lag."""

    lag: int
    first: int
    last: int
    equal: float
    with_sizes: bool

    @property
    def covered(self) -> int:
        """The number of requests."""
        return self.last - self.first

    def is_inside(self, other: _Repeated) -> bool:
        """Whether it is a loop inside the rounds of another one, which are more equal and go on as long."""
        is_better = other.equal >= self.equal + _AS_GOOD and other.covered >= _AS_LONG * self.covered
        return other.lag > self.lag and is_better


def _codes(trace: Trace, rows: _Numbers) -> list[tuple[_Numbers, bool]]:
    """Returns the requests as numbers, equal for equal requests: with sizes, and without if the code is known."""
    place = trace.tag if trace.context is None else trace.context.stack
    columns = [trace.stream[rows].astype(np.int64), place[rows].astype(np.int64)]
    without = _interned(columns)
    num_places = len(np.unique(columns[1]))
    with_sizes = _interned([without, _interned([trace.bytes[rows].view(np.int64)])])
    # One place of the code tells nothing about the order of requests.
    return [(with_sizes, True)] + ([(without, False)] if num_places > 1 else [])


def _interned(columns: list[_Numbers]) -> _Numbers:
    """Returns one number below the number of different rows for each row."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, part = np.unique(column, return_inverse=True)
        _, code = np.unique(code * (int(part.max()) + 1) + part, return_inverse=True)
    return code.astype(np.int64)


def _repeated(codes: _Numbers, with_sizes: bool) -> list[_Repeated]:
    found = []
    for lag in _candidates(codes):
        first, last = _stretch(codes, lag)
        if last - first < max(LEAST_ROUNDS * lag, LEAST_COVERED * len(codes)):
            continue
        equal = float(np.mean(codes[first : last - lag] == codes[first + lag : last]))
        # One request that repeats over and over has every period, and is no step.
        is_one_request = float(np.mean(codes[first : last - 1] == codes[first + 1 : last])) >= equal - _AS_GOOD
        if equal >= LEAST_EQUAL and not is_one_request:
            found.append(_Repeated(lag, first, last, equal, with_sizes))
    return found


def _candidates(codes: _Numbers) -> list[int]:
    """Returns lags at which most requests of some window may be equal, by autocorrelation.

    Each code becomes 1 or -1, at random but always the same. Equal requests then add 1 to the correlation at their lag,
    so that a lag with 90 % equal requests has at least 0.8 of the most that is possible, whatever the others are.
    """
    signs = np.random.default_rng(1).choice(np.array([-1.0, 1.0]), size=(2, int(codes.max()) + 1))
    scores: dict[int, float] = {}
    for first, last in _windows(len(codes)):
        width = last - first
        size = 1 << (2 * width - 1).bit_length()
        sums = np.full(width // 2 + 1, np.inf)
        for sign in signs:
            spectrum = np.fft.rfft(sign[codes[first:last]], size)
            sums = np.minimum(sums, np.fft.irfft(spectrum * np.conj(spectrum), size)[: len(sums)])
        shares = sums / (width - np.arange(len(sums)))
        lags = np.flatnonzero(shares >= 2 * LEAST_EQUAL - 1 - 1e-6)
        lags = lags[lags > 1]
        best = lags[np.argsort(-shares[lags], kind="stable")[:_MOST_CANDIDATES]]
        for lag in {*lags[:_MOST_CANDIDATES].tolist(), *best.tolist()}:
            scores[lag] = max(scores.get(lag, 0.0), float(shares[lag]))
    smallest = sorted(scores)[:_MOST_CANDIDATES]
    likeliest = sorted(scores, key=lambda lag: (-scores[lag], lag))[:_MOST_CANDIDATES]
    return sorted({*smallest, *likeliest})


def _windows(length: int) -> Iterator[tuple[int, int]]:
    """Yields parts of the sequence in which to look: what comes before the loop, and after it, must not hide it."""
    for quarters in (8, 6, 4, 3, 2):
        width = min(max(length * quarters // 8, 2 * LEAST_ROUNDS), length, _WIDEST_WINDOW)
        places = min(-(-4 * (length - width) // width) + 1, _MOST_WINDOWS)
        for start in np.unique(np.linspace(length - width, 0, places).astype(np.int64)).tolist():
            yield start, start + width


def _stretch(codes: _Numbers, lag: int) -> tuple[int, int]:
    """Returns the longest part of the sequence in which requests are mostly equal to those at the lag."""
    price = LEAST_EQUAL / (1 - LEAST_EQUAL)
    sums = np.concatenate(([0.0], np.cumsum(np.where(codes[:-lag] == codes[lag:], 1.0, -price))))
    lowest = np.minimum.accumulate(sums)
    last = int(np.argmax(sums - lowest))
    first = int(np.argmin(sums[: last + 1]))
    return first, last + lag


def _edges(rows: _Numbers, live: _Numbers, found: _Repeated) -> _Numbers | None:
    """Returns the rows at which rounds begin, and the end of the last one; None if too few rounds are whole.

    A round begins where the least is live before a request, which is where a loop has freed its temporaries.
    """
    lag, first, last = found[:3]
    # The first round may begin with the last requests of the warm-up, so each place is judged by all rounds.
    num_rounds = (last - first) // lag - 1
    if num_rounds < LEAST_ROUNDS - 1:
        return None
    starts = rows[first : first + num_rounds * lag].reshape(num_rounds, lag)
    before = np.where(starts > 0, live[starts - 1], 0).astype(np.float64)
    begin = first + int(np.argmin(before.sum(axis=0)))
    places = np.arange(begin, last + 1, lag)
    after = np.append(rows, len(live))
    return after[places] if len(places) > LEAST_ROUNDS - 1 else None


def _drift(live: _Numbers, edges: _Numbers) -> float:
    """Returns how much the live memory changes from one round to the next, as a share of its change in a round."""
    at_edges = np.where(edges > 0, live[edges - 1], 0).astype(np.float64)
    swing = np.maximum.reduceat(live, edges[:-1]) - np.minimum.reduceat(live, edges[:-1])
    return float(np.abs(np.diff(at_edges)).mean() / max(float(np.median(swing)), 1.0))


def _is_inside_a_step(trace: Trace, edges: _Numbers) -> bool:
    """Returns whether the stacks show that all rounds were made in one call of a module, an optimizer or autograd.

    Then the outer frames that all stacks share, down to the loop, have that call among them.
    """
    context = trace.context
    if context is None:
        return False
    inside = np.unique(context.stack[edges[0] : edges[-1]][trace.op[edges[0] : edges[-1]] == Op.ALLOCATE.value])
    stacks = [[frame for frame in reversed(context.stacks[int(number)]) if is_python(frame)] for number in inside]
    # A stack without a Python frame is of another thread, and tells nothing.
    known = [stack for stack in stacks if stack]
    shared = []
    for frames in zip(*known, strict=False):
        if any(frame != frames[0] for frame in frames):
            break
        shared.append(frames[0])
    return any(frame.name == "forward" or _PART.search(frame.filename[-2000:]) for frame in shared)
