"""What a call from Python into the core costs when it does nothing, beside a builtin and a ctypes call."""

import ctypes
import gc
import time
import timeit

from benchmarks.figures import Figure, Figures, Goal
from memlake import _native

CALLS = 500_000
PASSES = 9


def measure() -> Figures:
    """Thread CPU time per call, loop included; passes alternate, so that a slow moment hits all of them."""
    subjects = {"noop": _native.noop, "builtin": gc.isenabled, "ctypes": ctypes.CDLL(None).getpagesize}
    passes: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(PASSES):
        for name, function in subjects.items():
            seconds = timeit.timeit("call()", globals={"call": function}, number=CALLS, timer=time.thread_time)
            passes[name].append(seconds / CALLS * 1e9)
    return Figures("python_call", {name: Figure.median(ns, "ns") for name, ns in passes.items()}, Goal("noop", 100))
