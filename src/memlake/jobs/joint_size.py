"""The smallest device of a policy that serves every rank, confirmed by replays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.jobs.asking import RankAnswer
from memlake.jobs.fits import JobSize
from memlake.replaying.capacity import GRID, LARGEST_DEVICE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memlake.analysis import Fit
    from memlake.errors import MemlakeError
    from memlake.jobs.answer import Rank
    from memlake.policies import Options

__all__ = ["joint_sizes"]

# If a rank does not run on the first size, so many steps more are tried.
_STEPS = (1, 2, 4, 8, 16)
_PRECISION = 1000  # a step is the live peak divided by this, as the precision of a fit


def joint_sizes(
    ranks: Sequence[Rank[Fit]], replay: Callable[..., list[RankAnswer | MemlakeError]]
) -> tuple[JobSize, ...]:
    """Returns the smallest device of each policy that was searched on every rank.

    Args:
        ranks: the ranks with their fits.
        replay: replays files under pairs of options and capacities.
    """
    sizes: dict[Options, dict[str, int | None]] = {}
    for rank in ranks:
        for found in rank.result:
            sizes.setdefault(found.result.options, {})[rank.label] = found.min_capacity
    sizes = {options: by for options, by in sizes.items() if len(by) == len(ranks)}
    first = {options: max(map(int, by.values())) for options, by in sizes.items() if _all_known(by)}  # type: ignore[arg-type]
    confirmed = _confirmed(ranks, {options: (size,) for options, size in first.items()}, sizes, replay)
    step = max(max(rank.peak_live for rank in ranks) // _PRECISION // GRID, 1) * GRID
    more = {
        options: tuple(min(size + step * number, LARGEST_DEVICE) for number in _STEPS)
        for options, size in first.items()
        if options not in confirmed
    }
    confirmed |= _confirmed(ranks, more, {}, replay)
    undecided = {one.result.options for rank in ranks for one in rank.result if not one.is_decided}
    return tuple(
        JobSize(options, by, confirmed.get(options), is_decided=options not in undecided)
        for options, by in sizes.items()
    )


def _all_known(sizes: dict[str, int | None]) -> bool:
    return None not in sizes.values()


def _confirmed(
    ranks: Sequence[Rank[Fit]],
    tries: dict[Options, tuple[int, ...]],
    known: dict[Options, dict[str, int | None]],
    replay: Callable[..., list[RankAnswer | MemlakeError]],
) -> dict[Options, int]:
    """Returns for each policy the smallest of the given capacities on which every rank runs, if there is one.

    Args:
        ranks: the ranks.
        tries: the capacities to try for each policy, in ascending order.
        known: the capacities on which a rank is known to run, by policy and label.
        replay: replays files under pairs of options and capacities.
    """
    pairs = [(options, size) for options, sizes in tries.items() for size in sizes]
    if not pairs:
        return {}
    ran = dict.fromkeys(pairs, True)
    asked = [rank for rank in ranks if any(known.get(options, {}).get(rank.label) != size for options, size in pairs)]
    for answer in replay([rank.file.path for rank in asked], pairs) if asked else ():
        results = answer.result if isinstance(answer, RankAnswer) else (None,) * len(pairs)
        for pair, result in zip(pairs, results, strict=True):
            ran[pair] &= result is not None and result.ran
    return {options: size for options, sizes in tries.items() for size in reversed(sizes) if ran[options, size]}
