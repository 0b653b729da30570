"""The choice among settings that were replayed: on one trace, or on the traces of all ranks of a job.

A candidate is a tuple of replays with the same options, one per trace. The trace with the worst figure decides, so a
setting that is chosen holds for every trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlake.analysis.candidates import is_certain
from memlake.analysis.setting import Setting
from memlake.policies import TorchOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.replaying.result import ReplayResult
    from memlake.trace import JobSettings

__all__ = ["Candidate", "choose", "material_of", "merit_of", "setting_for"]

Candidate = tuple["ReplayResult", ...]

_MATERIAL = 100  # a difference counts if it is at least the live peak divided by this
_LEAST_MATERIAL = 32 * 2**20
_COARSE = 5  # so many such differences outweigh stalls
_MOST_ALTERNATIVES = 3


def material_of(peak_live: int) -> int:
    """Returns the smallest difference in held memory that counts for a job with this live peak."""
    return max(peak_live // _MATERIAL, _LEAST_MATERIAL)


def merit_of(candidate: Candidate, own: TorchOptions | None) -> tuple[Any, ...]:
    """Returns a key for sorting: candidates that fit, hold less, stall less often, change fewer settings come first.

    Held memory counts in steps of 5 % of the live peak first, and in steps of 1 % after the stalls.

    Args:
        candidate: the replays.
        own: what the job ran under.
    """
    options = candidate[0].options
    settings = options.to_text()
    over = max(max(result.peak_held - result.peak_live, 0) // material_of(result.peak_live) for result in candidate)
    return (
        not _fits(candidate),
        over // _COARSE,
        max(result.stalls for result in candidate),
        over,
        options != own,
        settings.count(":"),
        _driver_ms(candidate),
        _held(candidate),
        options.name,
        settings,
    )


def choose(
    candidates: Sequence[Candidate], own: Candidate, settings: JobSettings, *, is_ruled_out: bool
) -> tuple[Candidate | None, tuple[Candidate, ...]]:
    """Returns the candidate to recommend, and at most three alternatives; None if the job should keep its own.

    Args:
        candidates: the candidates in the order of `merit_of`.
        own: the replays of what the job ran under.
        settings: what is known of the job.
        is_ruled_out: whether the job cannot keep what it ran under, whatever it holds.
    """
    better = [
        candidate
        for candidate in candidates
        if _is_better(candidate, None if is_ruled_out else own)
        and (is_ruled_out or candidate[0].options != own[0].options)
    ]
    best = next((candidate for candidate in better if _is_certain(candidate, settings)), None)
    if best is None:
        return None, ()
    others = [candidate for candidate in better if candidate is not best]
    # The best of the other allocator is always worth a look; the rest only if it is cheaper or holds less.
    material = material_of(max(result.peak_live for result in best))
    faster = [candidate for candidate in others if _driver_ms(candidate) < 0.9 * _driver_ms(best)]
    leaner = [candidate for candidate in others if _held(best) - _held(candidate) >= material]
    ways = (
        [candidate for candidate in others if candidate[0].policy != best[0].policy],
        sorted(faster, key=lambda candidate: (_driver_ms(candidate), candidate[0].options.configuration)),
        sorted(leaner, key=lambda candidate: (_held(candidate), candidate[0].options.configuration)),
    )
    picked = {way[0][0].options: way[0] for way in ways if way}
    return best, tuple(picked.values())[:_MOST_ALTERNATIVES]


def setting_for(result: ReplayResult, own: ReplayResult, settings: JobSettings, num_steps: int) -> Setting:
    """Returns a replay of the search as a setting to paste.

    Args:
        result: the replay.
        own: the replay of what the job ran under.
        settings: what is known of the job.
        num_steps: the number of steps of the trace.
    """
    options = result.options
    assert isinstance(options, TorchOptions)
    notes = [settings.note_for(options)]
    if not is_certain(options, settings):
        notes.append("large_segment_size_mb is known of torch 2.13; an older one may refuse it")
    return Setting(
        result=result,
        own=own,
        line=settings.line_for(options),
        note="; ".join(filter(None, notes)),
        num_steps=num_steps,
    )


def _is_better(candidate: Candidate, own: Candidate | None) -> bool:
    """Whether a candidate is worth a change of settings: it fits and own does not, it holds or stalls clearly less."""
    if not _fits(candidate) or own is None or not _fits(own):
        return _fits(candidate)
    saved = _held(own) - _held(candidate)
    material = material_of(max(result.peak_live for result in own))
    more_stalls = [new.stalls - old.stalls for new, old in zip(candidate, own, strict=True)]
    if max(more_stalls) > 0:
        return saved >= _COARSE * material
    return saved >= material or (sum(more_stalls) < 0 and saved > -material)


def _is_certain(candidate: Candidate, settings: JobSettings) -> bool:
    options = candidate[0].options
    return isinstance(options, TorchOptions) and is_certain(options, settings)


def _fits(candidate: Candidate) -> bool:
    return all(result.fits for result in candidate)


def _held(candidate: Candidate) -> int:
    return max(result.peak_held for result in candidate)


def _driver_ms(candidate: Candidate) -> float:
    return max(result.modelled_driver_ms or 0.0 for result in candidate)
