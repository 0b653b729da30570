"""What the benchmarks of replays have in common: the traces, and one replay of one of them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from memlake import Trace, _native, emulator_library, policy
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
    emulator = _native.Driver.load(emulator_library())
    capacity = capacity_for(trace)
    options = policy(name)
    stream: Any = trace.stream
    report = _native.replay(
        emulator,
        options.to_native(),
        trace.op,
        trace.id,
        trace.bytes,
        stream,
        capacity,
        None,
        "immediate",
        0,
        False,
        0,
    )
    if report.failure is not None:
        raise RuntimeError(f"{name} runs out of memory: {report.failure}")
    return report.cpu_seconds


@contextmanager
def one_core() -> Iterator[None]:
    """Keeps this process, and those it starts, on one core: what is compared runs on the same one."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
