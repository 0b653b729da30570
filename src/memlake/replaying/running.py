"""Replays one trace under one policy on one emulated device."""

from __future__ import annotations

import operator
import os
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from memlake import _native
from memlake.errors import ConfigError
from memlake.libraries import emulator_library
from memlake.policies import resolve_policy
from memlake.replaying.capacity import capacity_of, limit_of
from memlake.replaying.costs import apply_costs_of_environment
from memlake.replaying.event_mode import EventMode
from memlake.replaying.failure import Failure
from memlake.replaying.moments import Moments
from memlake.replaying.result import ReplayResult, Timeline
from memlake.trace import Trace
from memlake.units import format_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

    from memlake.policies import Options
    from memlake.units import Size

__all__ = ["replay", "run", "to_trace"]


def replay(
    trace: Trace | str | os.PathLike[str],
    policy: str | Options = "lake",
    capacity: Size | None = None,
    *,
    events: str = "immediate",
    limit: Size | None = None,
    reserve: Size | None = None,
    go_on: bool = False,
    timeline: int = 0,
) -> ReplayResult:
    """Replays a trace without a GPU: the policy allocates and frees on an emulated device.

    The same arguments give the same result, except for `ReplayResult.ns_per_event`. Several threads may replay at the
    same time.

    Args:
        trace: the trace to replay, or the path of its file.
        policy: a name, PyTorch's configuration string, or options; see `memlake.policy`.
        capacity: the memory of the device, as a size or as the name of a GPU such as ``"a100-80gb"``. None: the
            capacity that the trace gives, if it gives one.
        events: when memory that another stream used becomes free. ``"immediate"``: when the pool next looks;
            ``"recorded"``: when the trace says so; ``"lag:N"``: N rows after its free.
        limit: the most that the policy may hold, as a size or a share of the capacity.
        reserve: what to subtract from the memory of a named GPU for the CUDA context. None: 512 MiB.
        go_on: whether to continue after a request that found no memory. The replay then leaves that allocation out, so
            the later rows no longer match what the program did.
        timeline: the number of samples to take over the trace; 0 for none. Each has the maxima of its rows, so the
            peak is always in one of them. What was live before the history of the trace is there from the start.

    Raises:
        ConfigError: if an argument cannot be used.
        TraceError: if the file is not a trace. If there is no such file, it is also a FileNotFoundError.
    """
    trace = to_trace(trace)
    samples = _whole_number("timeline", timeline)
    options = resolve_policy(policy)
    size = capacity_of(trace, capacity, reserve).nbytes
    return run(trace, options, size, EventMode.parse(events), limit, go_on=bool(go_on), samples=samples)


def run(
    trace: Trace,
    options: Options,
    capacity: int,
    events: EventMode,
    limit: Size | None,
    *,
    go_on: bool = False,
    samples: int = 0,
    moments: npt.NDArray[np.uint64] | None = None,
) -> ReplayResult:
    """Replays a trace with checked arguments. It runs without the GIL.

    Args:
        trace: the trace.
        options: the policy.
        capacity: the memory of the device in bytes.
        events: when events are complete.
        limit: the most that the policy may hold.
        go_on: whether to continue after a request that found no memory.
        samples: the number of samples of the timeline; 0 for none.
        moments: rows after which the blocks are noted, in ascending order; None for none.
    """
    apply_costs_of_environment()
    effective = limit_of(limit, options.limit_on(capacity), capacity)
    sampled = len(trace) - trace.num_carried
    report = _native.replay(
        _emulator(),
        options.configuration,
        trace.op,
        trace.id,
        trace.bytes,
        trace.stream,
        capacity,
        effective,
        events.kind,
        events.lag,
        go_on,
        max(-(-sampled // samples), 1) if samples else 0,
        trace.num_carried,
        trace.graph_pools,
        moments,
    )
    failure = report.failure
    budget = capacity if effective is None else min(effective, capacity)
    return ReplayResult(
        options=options,
        capacity=capacity,
        limit=effective,
        events=str(events),
        rows=report.rows,
        peak_live=trace.peak_live,
        peak_requested=report.peak_requested,
        peak_allocated=report.peak_allocated,
        peak_held=report.peak_held,
        num_ooms=report.ooms,
        num_alloc_retries=report.retries,
        host_waits=report.host_waits,
        counters=dict(report.counters),
        driver_calls=MappingProxyType(report.calls),
        modelled_driver_ms=None if options.capabilities.approximate else report.modelled_us / 1000,
        longest_request_ms=None if options.capabilities.approximate else report.longest_us / 1000,
        ns_per_event=report.cpu_seconds / report.rows * 1e9 if report.rows else 0.0,
        failure=None if failure is None else Failure.from_picture(failure, trace, capacity, effective),
        timeline=_timeline(report) if samples else None,
        moments=None if moments is None else Moments.from_core(*report.moments),
        history=trace.history,
        doubt=_doubt(trace, options, capacity, budget, report.peak_held) if failure is None else "",
        num_rows=len(trace),
        notes=trace.caveats,
    )


def _timeline(report: _native.ReplayReport) -> Timeline:
    rows, allocated, held, driver_us = report.timeline
    return Timeline(
        np.array(rows, np.uint64), np.array(allocated, np.uint64), np.array(held, np.uint64), np.array(driver_us) / 1000
    )


def _doubt(trace: Trace, options: Options, capacity: int, budget: int, peak_held: int) -> str:
    """Returns why a replay in which every request found memory does not show that the job fits; empty if it does."""
    held_back = trace.free_in_private_pools
    pools = (
        f"Private pools held back {format_bytes(held_back)} of free memory when the snapshot was taken. memlake does "
        "not model them: the replay gives that memory to other requests, PyTorch does not."
    )
    if trace.oom is not None and options == trace.settings.policy and capacity <= (trace.oom.capacity or 0):
        refused = "PyTorch ran out of memory on such a device, and the replay of what the job ran under does not"
        if held_back:
            return f"{refused}. {pools}"
        return (
            f"{refused}: memory was taken that the replay does not model, for instance by private pools, a limit, or "
            "before the history."
        )
    if held_back and peak_held + held_back > budget:
        total = format_bytes(peak_held + held_back)
        return f"{pools} With that on top, the {format_bytes(peak_held)} that {options.label} holds would be {total}."
    return ""


def to_trace(given: Trace | str | os.PathLike[str]) -> Trace:
    """Returns a trace unchanged, and loads the file that a path names.

    Raises:
        ConfigError: if the argument is neither.
        TraceError: if the file is not a trace.
    """
    if isinstance(given, Trace):
        return given
    if isinstance(given, str | os.PathLike):
        return Trace.load(given)
    raise ConfigError(f"trace must be a memlake.Trace or the path of a file, got {type(given).__name__}")


def _whole_number(name: str, value: object) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # TypeError is the answer we want
    except TypeError:
        number = -1
    if isinstance(value, bool) or number < 0:
        raise ConfigError(f"{name} must be a whole number of at least 0, got {value!r}")
    return number


def _emulator() -> _native.Driver:
    return _native.Driver.load(emulator_library())
