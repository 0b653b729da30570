"""The search for one setting that holds for every rank."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from memlake.analysis.choosing import choose, merit_of, setting_for
from memlake.jobs.advice import JobSetting
from memlake.jobs.asking import RankAnswer
from memlake.policies import TorchOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memlake.analysis import Advice
    from memlake.analysis.choosing import Candidate
    from memlake.errors import MemlakeError
    from memlake.jobs.answer import Rank
    from memlake.policies import Options
    from memlake.replaying import ReplayResult

__all__ = ["joint_settings"]

_MOST_ADDED = 24
"""The most settings that are replayed on ranks whose own search did not try them."""


def joint_settings(
    ranks: Sequence[Rank[Advice]], replay: Callable[..., list[RankAnswer | MemlakeError]]
) -> dict[str, Any]:
    """Returns the fields of a `JobAdvice` that concern all ranks: the recommendation, the alternatives, the numbers.

    The searches of the ranks try the same single changes, and each the pairs of its own best ones. The pairs that fit
    on some rank are replayed on the others, the most frequent first.

    Args:
        ranks: the ranks with their advice; each has searched.
        replay: replays files under pairs of options and capacities.
    """
    tried = {rank.label: {result.options: result for result in rank.result.tried} for rank in ranks}
    _add_missing(ranks, tried, replay)
    common = [options for options in next(iter(tried.values())) if all(options in by for by in tried.values())]
    settings = ranks[0].facts.settings
    own_options = ranks[0].result.own.options
    own_torch = own_options if isinstance(own_options, TorchOptions) else None
    candidates: list[Candidate] = sorted(
        (tuple(tried[rank.label][options] for rank in ranks) for options in common),
        key=lambda candidate: merit_of(candidate, own_torch),
    )
    own = tuple(rank.result.own for rank in ranks)
    best, others = choose(candidates, own, settings, is_ruled_out=ranks[0].result.is_ruled_out)

    def joint(candidate: Candidate) -> JobSetting:
        return JobSetting(
            {
                rank.label: setting_for(result, rank.result.own, settings, rank.num_steps)
                for rank, result in zip(ranks, candidate, strict=True)
            },
            {rank.label: rank.file.title for rank in ranks},
        )

    return {
        "recommendation": None if best is None else joint(best),
        "alternatives": tuple(map(joint, others)),
        "num_tried": len(common),
        "some_fit": any(all(result.fits for result in candidate) for candidate in candidates),
    }


def _add_missing(
    ranks: Sequence[Rank[Advice]],
    tried: dict[str, dict[Options, ReplayResult]],
    replay: Callable[..., list[RankAnswer | MemlakeError]],
) -> None:
    """Replays settings that fit on some ranks on the ranks that did not try them, and adds the results to `tried`."""
    fitting = Counter(options for by in tried.values() for options, result in by.items() if result.fits)
    failing = {options for by in tried.values() for options, result in by.items() if not result.fits}
    incomplete = [
        options for options in fitting if options not in failing and any(options not in by for by in tried.values())
    ]
    incomplete.sort(key=lambda options: (-fitting[options], options.configuration))
    chosen = incomplete[:_MOST_ADDED]
    asked = [rank for rank in ranks if any(options not in tried[rank.label] for options in chosen)]
    if not asked:
        return
    capacity = ranks[0].result.comparison.capacity
    pairs = [(options, capacity) for options in chosen]
    for rank, answer in zip(asked, replay([rank.file.path for rank in asked], pairs), strict=True):
        if isinstance(answer, RankAnswer):
            for options, result in zip(chosen, answer.result, strict=True):
                tried[rank.label].setdefault(options, result)
