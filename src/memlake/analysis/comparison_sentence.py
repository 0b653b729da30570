"""The sentence of a comparison: which policies fit, why the others fail, and what to do."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from memlake.policies import TorchOptions, default_policy
from memlake.units import format_bytes
from memlake.wording import listed, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.analysis.comparing import Comparison
    from memlake.replaying.result import ReplayResult

__all__ = ["sentence_of"]

_FOR_COMPARISON = frozenset({"stitch", "direct"})
"""Policies that show what other designs do. They are not recommended: their driver calls take too long for a job."""


def sentence_of(comparison: Comparison) -> str:
    """Returns a few sentences about a comparison."""
    past = f"{comparison.oom.sentence} " if comparison.oom is not None else ""
    return past + _present(comparison)


def _present(comparison: Comparison) -> str:
    device = f"On a device of {format_bytes(comparison.capacity)}"
    budget = max(result.budget for result in comparison)
    if comparison.peak_live > budget:
        return _too_much_is_live(comparison, device, budget)
    unknown = [result for result in comparison if result.outcome == "unknown"]
    if unknown and not comparison.fitting:
        return _undecided(comparison, device, unknown)
    failing = [result for result in comparison if result.outcome == "oom"]
    if not failing:
        return f"{device} {_fit(comparison.fitting)}; {_of_those_that_fit(comparison)}.{_after(comparison)}"
    deaths = "; ".join([_death(failing[0]), *(_short_death(result) for result in failing[1:])])
    if not comparison.fitting:
        return (
            f"{device} no policy fits, though only {format_bytes(comparison.peak_live)} are live at most: {deaths}; "
            f"{_what_each_needs(comparison)}."
        )
    return f"{device} {deaths}; {_fit(comparison.fitting)}; {_what_to_do(comparison)}.{_after(comparison)}"


def _too_much_is_live(comparison: Comparison, device: str, budget: int) -> str:
    live = f"{format_bytes(comparison.peak_live)} are live at once (row {comparison.peak_row})"
    if comparison.oom is not None and comparison.oom.row == comparison.peak_row:
        live = (
            f"{format_bytes(comparison.peak_live)} would be live at once with the request at row {comparison.peak_row}"
        )
    if budget < comparison.capacity:
        what = f"raise the limit to at least {format_bytes(comparison.peak_live)}"
        what += "" if comparison.peak_live <= comparison.capacity else " and use a larger device"
        return f"{device} with a limit of {format_bytes(budget)} nothing can fit: {live}, so {what}."
    return f"{device} nothing can fit: {live}, so the job itself must need less, or the device be larger."


def _undecided(comparison: Comparison, device: str, unknown: Sequence[ReplayResult]) -> str:
    ran = [result for result in unknown if result.ran]
    if ran and ran[0].doubt:
        return f"{device} it cannot be known whether the job fits. {ran[0].doubt}"
    held = [f"{result.label} {format_bytes(result.peak_held)}" for result in ran]
    live = format_bytes(comparison.peak_live)
    if comparison.history.kind == "state":
        best = f" A program that allocates just that anew holds: {listed(held)}." if held else ""
        short = [result.label for result in unknown if not result.ran]
        less = f" Under {listed(short)} it does not find room even for that." if short else ""
        return f"{device} it cannot be known whether the job fits. {live} were live, which is less.{best}{less}"
    return (
        f"{device} it cannot be known whether the job fits: PyTorch held "
        f"{format_bytes(comparison.history.held_before)} when the record begins, more than the device has, and what it "
        f"needed that for is not in the file. The recorded part alone finds memory and holds: {listed(held)}."
    )


def _death(result: ReplayResult) -> str:
    failure = result.failure
    assert failure is not None
    return f"{result.label} runs out of memory: {failure.sentence}"


def _short_death(result: ReplayResult) -> str:
    failure = result.failure
    assert failure is not None
    return f"{result.label} runs out at row {failure.row} ({failure.reason})"


def _fit(fitting: Sequence[ReplayResult]) -> str:
    return f"{listed([result.label for result in fitting])} {plural(len(fitting), 'fits', 'fit')}"


def _after(comparison: Comparison) -> str:
    return f" {comparison.after_oom}" if comparison.after_oom else ""


def _least_driver_time(fitting: Sequence[ReplayResult]) -> ReplayResult:
    # A policy without a modelled time wins only if no policy has one.
    return min(fitting, key=lambda result: inf if result.modelled_driver_ms is None else result.modelled_driver_ms)


def _of_those_that_fit(comparison: Comparison) -> str:
    fitting = [result for result in comparison.fitting if result.policy not in _FOR_COMPARISON] or comparison.fitting
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


def _what_to_do(comparison: Comparison) -> str:
    fitting = comparison.fitting
    if own := [result for result in fitting if comparison.is_own(result)]:
        return f"{own[0].label} is what the job ran under, so it needs no other setting"
    # A program with a memlake pool can use any policy. With PyTorch's allocator it can only set options.
    ways = []
    if defaults := [result for result in fitting if result.policy == default_policy()]:
        ways.append(f"use {_least_driver_time(defaults).label}")
    torchs = [result for result in fitting if isinstance(result.options, TorchOptions)]
    if settable := [result for result in torchs if comparison.settings.can_set(result.options)]:
        options = _least_driver_time(settable).options
        note = comparison.settings.note_for(options)
        ways.append(f"set {comparison.settings.line_for(options)}" + (f" ({note})" if note else ""))
    if ways:
        return ", or ".join(ways)
    if torchs:
        return "torch_npu documents no variable that sets their options"
    usable = [result for result in fitting if result.policy not in _FOR_COMPARISON]
    if usable:
        return f"use {_least_driver_time(usable).label}"
    return "that is of no use for a job: the device must be larger, or the job need less"
