"""The different values of an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["distinct"]


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns the different values of an array of numbers in ascending order.

    `numpy.unique` does the same, but its first call imports `numpy.ma`, which takes longer than reading a small trace.
    """
    ordered = np.sort(values)
    is_new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]
