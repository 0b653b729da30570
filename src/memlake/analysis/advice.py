"""Advice: summarises a comparison in one sentence. It says which policies fit, why the others fail, and what to do."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from memlake.policies import DirectOptions, TorchOptions, default_policy
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.analysis.comparing import Comparison
    from memlake.replaying.result import ReplayResult

__all__ = ["advice_for", "listed"]


def advice_for(comparison: Comparison) -> str:
    """Returns one sentence about a comparison."""
    device = f"On a device of {format_bytes(comparison.capacity)}"
    if comparison.peak_live > comparison.capacity:
        return (
            f"{device} nothing can fit: {format_bytes(comparison.peak_live)} are live at once (row "
            f"{comparison.peak_row}), so the job itself must need less, or the device be larger."
        )
    failing = [result for result in comparison if not result.fits]
    if not failing:
        return f"{device} {_fit(comparison.fitting)}; {_of_those_that_fit(comparison.fitting)}."
    deaths = "; ".join([_death(failing[0]), *(_short_death(result) for result in failing[1:])])
    if not comparison.fitting:
        return (
            f"{device} no policy fits, though only {format_bytes(comparison.peak_live)} are live at most: {deaths}; "
            f"{_what_each_needs(comparison)}."
        )
    return f"{device} {deaths}; {_fit(comparison.fitting)}; {_what_to_do(comparison.fitting)}."


def listed(words: Sequence[str]) -> str:
    """Joins words: ``"a"``, ``"a and b"``, ``"a, b and c"``."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def _death(result: ReplayResult) -> str:
    failure = result.failure
    assert failure is not None
    return f"{result.label} runs out of memory: {failure.sentence}"


def _short_death(result: ReplayResult) -> str:
    failure = result.failure
    assert failure is not None
    return f"{result.label} runs out at row {failure.row} ({failure.reason})"


def _fit(fitting: Sequence[ReplayResult]) -> str:
    return f"{listed([result.label for result in fitting])} {'fits' if len(fitting) == 1 else 'fit'}"


def _least_driver_time(fitting: Sequence[ReplayResult]) -> ReplayResult:
    # A policy without a modelled time wins only if no policy has one.
    return min(fitting, key=lambda result: inf if result.modelled_driver_ms is None else result.modelled_driver_ms)


def _of_those_that_fit(fitting: Sequence[ReplayResult]) -> str:
    best = _least_driver_time(fitting)
    tightest = min(fitting, key=lambda result: result.peak_held)
    held = format_bytes(tightest.peak_held)
    if best.modelled_driver_ms is None:
        return f"it holds {held}" if len(fitting) == 1 else f"{tightest.label} holds the least ({held})"
    time = f"{best.modelled_driver_ms:.0f} ms"
    if len(fitting) == 1:
        return f"it spends {time} in the driver and holds {held}"
    if best is tightest:
        return f"{best.label} spends the least time in the driver ({time}) and holds the least ({held})"
    return f"{best.label} spends the least time in the driver ({time}), {tightest.label} holds the least ({held})"


def _what_each_needs(comparison: Comparison) -> str:
    limits = [failure.limit for result in comparison if (failure := result.failure) and failure.is_limited]
    if not limits:
        return "memlake fit tells how much each of them needs"
    # A pool must be able to hold at least the live peak.
    is_too_low = any(limit is not None and limit < comparison.peak_live for limit in limits)
    raised = "raise the limit" + (f" to at least {format_bytes(comparison.peak_live)}" if is_too_low else "")
    return raised if len(limits) == len(comparison) else f"{raised}, or use a larger device"


def _what_to_do(fitting: Sequence[ReplayResult]) -> str:
    # A program with a memlake pool can use any policy. With PyTorch's allocator it can only set options.
    ways = []
    if defaults := [result for result in fitting if result.policy == default_policy()]:
        ways.append(f"use {_least_driver_time(defaults).label}")
    if torchs := [result for result in fitting if result.options.capabilities.in_pytorch]:
        options = _least_driver_time(torchs).options
        assert isinstance(options, TorchOptions)
        ways.append(f"set PYTORCH_ALLOC_CONF={options.to_torch()}")
    if ways:
        return ", or ".join(ways)
    best = _least_driver_time(fitting)
    if isinstance(best.options, DirectOptions):
        cost = f"{best.modelled_driver_ms or 0:.0f} ms of driver calls"
        return f"in PyTorch {best.label} is PYTORCH_NO_CUDA_MEMORY_CACHING=1, and costs {cost}"
    return f"use {best.label}"
