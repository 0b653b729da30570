"""Stream numbers: a trace has numbers in place of the stream handles of the recorded process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

__all__ = ["StreamNumbers", "plain_stream"]

LEGACY_DEFAULT_STREAM = 1
"""CU_STREAM_LEGACY of cuda.h: a second handle of the default stream, whose first handle is 0."""


def plain_stream(handle: int) -> int:
    """Returns the handle, with 0 for both handles of the default stream."""
    return 0 if handle == LEGACY_DEFAULT_STREAM else handle


class StreamNumbers:
    """Numbers stream handles: the default stream is 0, the others follow in the order of their handles.

    The order is kept because PyTorch compares streams by their handles.

    Attributes:
        handles: the handle of each number.
    """

    def __init__(self, handles: Iterable[int]) -> None:
        self.handles = sorted({0, *handles})
        self._numbers = {handle: number for number, handle in enumerate(self.handles)}

    def of(self, handle: int) -> int:
        """The number of a handle."""
        return self._numbers[handle]

    def of_all(self, handles: npt.NDArray[np.uint64]) -> npt.NDArray[Any]:
        """The number of each handle."""
        return np.searchsorted(np.array(self.handles, np.uint64), handles.astype(np.uint64, copy=False))
