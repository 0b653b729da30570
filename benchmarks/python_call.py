"""What a call from Python into the core costs when it does nothing, beside a builtin and a ctypes call."""

import ctypes
import gc
import timeit

from benchmarks.figures import Figures, Goal, median
from memlake import _native

CALLS = 500_000
PASSES = 9


def measure() -> Figures:
    """Nanoseconds per call, loop included; passes alternate, so that a slow moment hits all of them."""
    subjects = {"noop": _native.noop, "builtin": gc.isenabled, "ctypes": ctypes.CDLL(None).getpagesize}
    passes: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(PASSES):
        for name, function in subjects.items():
            seconds = timeit.timeit("call()", globals={"call": function}, number=CALLS)
            passes[name].append(seconds / CALLS * 1e9)
    values = {name: median(times) for name, times in passes.items()}
    return Figures("python_call", "ns", values, Goal("noop", 100), passes)
