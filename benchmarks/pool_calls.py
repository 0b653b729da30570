"""What `pool.allocate` and `buffer.close` cost from Python when nothing has to be asked of the driver."""

import time
import timeit

import memlake
from benchmarks.figures import Figure, Figures, Goal

CALLS = 200_000
PASSES = 7
SIZES = {"small": 4096, "large": 3 * 2**20}


def measure() -> Figures:
    """Thread CPU time of one allocate and one close, loop included, for every policy that keeps memory."""
    (device,) = memlake.emulate(memory="1GiB", backing="none")
    passes: dict[str, list[float]] = {}
    pools = {policy: memlake.Pool(device, policy) for policy in ("expandable", "caching")}
    stream = device.create_stream()
    subjects = {
        f"{policy} {name}": (pool, f"allocate({nbytes}).close()")
        for policy, pool in pools.items()
        for name, nbytes in SIZES.items()
    }
    subjects["expandable on a stream"] = (pools["expandable"], "allocate(4096, stream=stream).close()")
    for _ in range(PASSES):
        for name, (pool, statement) in subjects.items():
            names = {"allocate": pool.allocate, "stream": stream}
            seconds = timeit.timeit(statement, globals=names, number=CALLS, timer=time.thread_time)
            passes.setdefault(name, []).append(seconds / CALLS * 1e9)
    for pool in pools.values():
        pool.close()
    figures = {name: Figure.median(ns, "ns") for name, ns in passes.items()}
    return Figures("pool_calls", figures, Goal("expandable small", 500))
