"""Stack traces: a table in which equal stacks and equal frames are stored once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from memlake.trace.columns import read_only

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

__all__ = ["Frame", "Stacks"]


class Frame(NamedTuple):
    """One frame of a stack: the file with its folders, the line, and the name of the function."""

    filename: str
    line: int
    name: str


class Stacks(Sequence[tuple[Frame, ...]]):
    """The stacks of a trace. A stack is a tuple of frames from the innermost outwards; stack 0 is empty.

    The frames are stored as columns, and `Frame` objects are made when a stack is asked for.

    Attributes:
        starts: where each stack begins in `frames`, and the end of the last one.
        frames: the frames of all stacks, as numbers.
        filename: the file of each frame, as a place in `texts`.
        line: the line of each frame.
        name: the function of each frame, as a place in `texts`.
        texts: the names of files and functions.
    """

    def __init__(
        self,
        starts: npt.ArrayLike = (0, 0),
        frames: npt.ArrayLike = (),
        filename: npt.ArrayLike = (),
        line: npt.ArrayLike = (),
        name: npt.ArrayLike = (),
        texts: Iterable[str] = (),
    ) -> None:
        """Makes the table of its columns.

        Raises:
            ValueError: if the columns contradict each other.
        """
        self.starts = _column(starts, np.uint64)
        self.frames = _column(frames, np.uint32)
        self.filename = _column(filename, np.uint32)
        self.line = _column(line, np.uint32)
        self.name = _column(name, np.uint32)
        self.texts = tuple(texts)
        self._check()

    @property
    def num_frames(self) -> int:
        """The number of different frames."""
        return len(self.line)

    def frame(self, number: int) -> Frame:
        """Returns a frame by its number in `frames`."""
        return Frame(self.texts[self.filename[number]], int(self.line[number]), self.texts[self.name[number]])

    def first_frames(self, is_wanted: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Returns for each stack the number of its innermost frame among the wanted ones; -1 if it has none.

        Args:
            is_wanted: for each frame, whether it is wanted.
        """
        found = np.full(len(self), -1, np.int64)
        places = np.flatnonzero(is_wanted[self.frames]) if len(self.frames) else np.zeros(0, np.int64)
        stacks = np.searchsorted(self.starts, places.astype(np.uint64), "right") - 1
        # NumPy keeps the last assigned value, so the places are assigned backwards to keep the innermost.
        found[stacks[::-1]] = self.frames[places][::-1]
        return found

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, key: int) -> tuple[Frame, ...]: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[tuple[Frame, ...], ...]: ...

    def __getitem__(self, key: int | slice) -> tuple[Frame, ...] | tuple[tuple[Frame, ...], ...]:
        if isinstance(key, slice):
            return tuple(self[number] for number in range(len(self))[key])
        number = range(len(self))[key]
        numbers = self.frames[int(self.starts[number]) : int(self.starts[number + 1])]
        return tuple(self.frame(frame) for frame in numbers.tolist())

    def __repr__(self) -> str:
        return f"<memlake.trace.Stacks: {len(self)} stacks, {self.num_frames} frames>"

    def _check(self) -> None:
        starts = self.starts.astype(np.int64)
        if len(starts) < 2 or starts[0] != 0 or starts[1] != 0 or starts[-1] != len(self.frames):
            raise ValueError("the first stack must be empty, and the last must end with the frames")
        if (np.diff(starts) < 0).any():
            raise ValueError("a stack ends before it begins")
        if not len(self.filename) == len(self.name) == self.num_frames:
            raise ValueError("the columns of the frames have different lengths")
        if not all(isinstance(text, str) for text in self.texts):
            raise ValueError("texts must be strings")
        for what, column, end in (
            ("frame", self.frames, self.num_frames),
            ("file", self.filename, len(self.texts)),
            ("name", self.name, len(self.texts)),
        ):
            if len(column) and int(column.max()) >= end:
                raise ValueError(f"there is no {what} {column.max()}")


def _column(values: npt.ArrayLike, dtype: type[np.integer[Any]]) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError("a column must have whole numbers in one dimension")
    limits = np.iinfo(dtype)
    if array.size and (int(array.min()) < limits.min or int(array.max()) > limits.max):
        raise ValueError(f"a number is outside {limits.min} to {limits.max}")
    return read_only(np.array(array, dtype))
