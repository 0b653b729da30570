"""What allocate and close cost on a pool with everything set that CUDA's pools have, against a plain one."""

import time
import timeit

import memlake
from benchmarks.figures import Figure, Figures, Goal

CALLS = 100_000
PASSES = 9
NBYTES = 4096


def measure() -> Figures:
    """Thread CPU time of one allocate and one close in steady state; the ratio of neighbouring passes."""
    a, b = memlake.emulate(devices=2, memory="1GiB", backing="none")
    plain = memlake.Pool(a)
    custom = memlake.Pool(
        a, max_size="512MiB", limit="50%", release_threshold="256MiB", decay=3600, initial_size="64MiB"
    )
    custom.reuse_allow_opportunistic = False
    custom.peer_accessible_by.add(b)
    pools = {"plain": plain, "custom": custom, "default": memlake.default_pool(a)}
    passes: dict[str, list[float]] = {name: [] for name in pools}
    for _ in range(PASSES):
        for name, pool in pools.items():
            seconds = timeit.timeit(
                f"allocate({NBYTES}).close()",
                globals={"allocate": pool.allocate},
                number=CALLS,
                timer=time.thread_time,
            )
            passes[name].append(seconds / CALLS * 1e9)
    ratios = [custom / plain for custom, plain in zip(passes["custom"], passes["plain"], strict=True)]
    figures = {name: Figure.median(ns, "ns") for name, ns in passes.items()}
    figures["custom_of_plain"] = Figure.median(ratios, "of plain")
    return Figures("custom_pool", figures, Goal("custom_of_plain", 1.05))
