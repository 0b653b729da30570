"""What the benchmarks of replays have in common: the traces, and one replay of one of them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import memlake
from memlake import Trace
from memlake.trace import load_example

TRACES = ("train_gpt-1.4b", "train_opt-13b_lora_offload", "train_opt-1.3b_recompute")
ROOM = 1.5
"""The device's memory over the live peak: enough that nothing is given back."""
PASSES = 7


def traces() -> dict[str, Trace]:
    """The traces by name."""
    return {name: load_example(name) for name in TRACES}


def capacity_for(trace: Trace) -> int:
    """Of the device, in whole granules."""
    granule = 2 * 2**20
    return int(trace.peak_live * ROOM) // granule * granule


def replay_seconds(trace: Trace, name: str) -> float:
    """The thread CPU time of one replay under a policy, on a device and in a pool that begin empty."""
    result = memlake.replay(trace, name, capacity_for(trace))
    if not result.fits:
        raise RuntimeError(result.sentence)
    return result.ns_per_event * result.rows / 1e9


@contextmanager
def one_core() -> Iterator[None]:
    """Keeps this process, and those it starts, on one core: what is compared runs on the same one."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
