"""Stream numbers: a trace has numbers in place of the stream handles of the recorded process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

__all__ = ["StreamNumbers", "handles_of", "plain_stream"]

_SPACING = 16
LEGACY_DEFAULT_STREAM = 1
"""CU_STREAM_LEGACY of cuda.h: a second handle of the default stream, whose first handle is 0."""


def plain_stream(handle: int) -> int:
    """Returns the handle, with 0 for both handles of the default stream."""
    return 0 if handle == LEGACY_DEFAULT_STREAM else handle


def handles_of(metadata: Mapping[str, Any], most: int) -> list[int]:
    """Returns the handle of each stream of a trace up to number `most`: those of the file, or made up in their order.

    A made up handle is not 1, which is a second name of the default stream.
    """
    known = metadata.get("streams")
    handles = [handle for handle in known if type(handle) is int] if isinstance(known, list) else []
    following = max(handles, default=0) // _SPACING * _SPACING
    return handles + [following + _SPACING * number for number in range(len(handles), most + 1)]


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
