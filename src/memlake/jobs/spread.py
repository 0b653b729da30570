"""Spreads: the smallest, the middle and the largest of a figure over the ranks of a job."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median_low
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Spread", "spread_of"]


@dataclass(frozen=True)
class Spread:
    """A figure over the ranks, in bytes.

    Attributes:
        least: the smallest one.
        median: the middle one; of an even number the lower of the two in the middle, so that a rank has it.
        most: the largest one.
        least_rank: the label of the first rank that has the smallest one.
        most_rank: the label of the first rank that has the largest one.
        num_ranks: how many ranks have the figure.
    """

    least: int
    median: int
    most: int
    least_rank: str
    most_rank: str
    num_ranks: int

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a dict."""
        return {
            "min": self.least,
            "median": self.median,
            "max": self.most,
            "min_rank": self.least_rank,
            "max_rank": self.most_rank,
            "ranks": self.num_ranks,
        }


def spread_of(figures: Mapping[str, int | None]) -> Spread | None:
    """Returns the spread of a figure that is given by labels; None if no rank has it."""
    known = {label: figure for label, figure in figures.items() if figure is not None}
    if not known:
        return None
    least = min(known, key=lambda label: known[label])
    most = max(known, key=lambda label: known[label])
    return Spread(known[least], median_low(known.values()), known[most], least, most, len(known))
