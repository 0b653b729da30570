"""What `allocate` and `close` cost from Python, in every form, when free memory serves the request.

Each figure is also given as a ratio to a bare call from Python into the core in the same run: the ratio says more than
nanoseconds on a machine that others use, too.
"""

import contextvars
import statistics
import time
import timeit

import numpy as np

import memlake
from benchmarks.figures import Figure, Figures, Goal
from memlake import _native

CALLS = 50_000
PASSES = 7

FORMS = {
    "int": "allocate(4096).close()",
    "large int": "allocate(3145728).close()",
    "numpy int": "allocate(number).close()",
    "text": "allocate('3MiB').close()",
    "stream": "allocate(4096, stream=stream).close()",
    "foreign stream": "allocate(4096, stream=theirs).close()",
    "handle": "allocate(4096, stream=handle).close()",
    "close on stream": "allocate(4096, stream=stream).close(stream=stream)",
    "close on other": "allocate(4096, stream=stream).close(stream=other)",
    "text, foreign stream": "allocate('3MiB', stream=theirs).close()",
    "memlake.allocate": "of_module(4096).close()",
    "memlake.allocate, stream": "of_module(4096, stream=stream).close()",
    "memlake.allocate, foreign stream": "of_module(4096, stream=theirs).close()",
    "memlake.allocate, handle": "of_module(4096, stream=handle).close()",
    "memlake.allocate, device": "of_module(4096, device=device).close()",
    "memlake.allocate, ordinal": "of_module(4096, device=0).close()",
    "memlake.allocate, device and stream": "of_module(4096, device=device, stream=stream).close()",
}
"""One allocate and one close of each form, as a program writes it."""

WITH_A_RECORD = "close on other"
"""The form that must record an event. Its least time should be 1000 ns at most, that of all others 500."""


IN_A_BLOCK = "memlake.allocate in use_pool"


class Theirs:
    """A stream of another library."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol of streams."""
        return (0, self.handle)


def measure() -> Figures:
    """Thread CPU time of one allocate and one close, loop included; the passes of all forms alternate."""
    (device,) = memlake.emulate(memory="1GiB", backing="none")
    stream, other = device.create_stream(), device.create_stream()
    pools = {policy: memlake.Pool(device, policy) for policy in ("lake", "expandable", "caching")}
    names = {
        "number": np.int64(4096),
        "stream": stream,
        "other": other,
        "theirs": Theirs(stream.handle),
        "handle": stream.handle,
        "of_module": memlake.allocate,
        "device": device,
    }
    subjects = {name: (pools["lake"].allocate, statement) for name, statement in FORMS.items()}
    used = contextvars.copy_context()
    used.run(memlake.use_pool(pools["lake"]).__enter__)
    subjects |= {f"{policy} stream": (pools[policy].allocate, FORMS["stream"]) for policy in ("expandable", "caching")}
    bare: list[float] = []
    passes: dict[str, list[float]] = {name: [] for name in [*subjects, IN_A_BLOCK]}
    for number in range(PASSES + 1):  # the first pass fills the caches and does not count
        bare.append(timed("noop()", {"noop": _native.noop}))
        for name, (allocate, statement) in subjects.items():
            ns = timed(statement, names | {"allocate": allocate})
            if number > 0:
                passes[name].append(ns)
        ns = used.run(timed, FORMS["memlake.allocate"], names)
        if number > 0:
            passes[IN_A_BLOCK].append(ns)
    for pool in pools.values():
        pool.close()
    call = statistics.median(bare[1:])
    figures = {"bare call": Figure.median(bare[1:], "ns")}
    figures |= {name: Figure.median(ns, "ns") for name, ns in passes.items()}
    figures |= {f"{name} / bare call": Figure(statistics.median(ns) / call, "x") for name, ns in passes.items()}
    figures |= {f"{name}/least": Figure(min(ns), "ns") for name, ns in passes.items()}
    slowest = max(min(ns) for name, ns in passes.items() if name != WITH_A_RECORD)
    figures["slowest least without a record"] = Figure(slowest, "ns")
    return Figures("pool_calls", figures, Goal("slowest least without a record", 500))


def timed(statement: str, names: dict[str, object]) -> float:
    """Nanoseconds of one execution."""
    return timeit.timeit(statement, globals=names, number=CALLS, timer=time.thread_time) / CALLS * 1e9
