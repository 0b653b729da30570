"""Errors of trace files: they name the file and the place in it, and say what to do."""

from __future__ import annotations

import errno
import os

from memlake.errors import TraceError

__all__ = ["NOT_READABLE", "MissingFileError", "TraceFileError"]


NOT_READABLE = "give a file that you may read"
"""The hint for a file that the system does not let this user read."""


class TraceFileError(TraceError):
    """A trace cannot be read.

    Attributes:
        reason: what is wrong.
        path: the file, or None for a trace that was made in memory.
        place: the place in the file, for instance ``"line 12"``, ``"row 7"`` or ``"byte 4711"``; None: the whole file.
        hint: what to do; may be empty.
        row: the number of the wrong row, from 0; None if the error is not about a row.
    """

    def __init__(
        self,
        reason: str,
        path: str | None = None,
        place: str | None = None,
        hint: str = "",
        row: int | None = None,
    ) -> None:
        super().__init__(reason, path, place, hint, row)
        self.reason = reason
        self.path = path
        self.place = place
        self.hint = hint
        self.row = row

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.path, self.place) if part is not None)
        text = f"{where}: {self.reason}" if where else self.reason
        return f"{text}; hint: {self.hint}" if self.hint else text


class MissingFileError(TraceFileError, FileNotFoundError):
    """There is no such file. Python's own attributes `errno`, `strerror` and `filename` are set, too."""

    def __init__(self, path: str) -> None:
        super().__init__("cannot be read: there is no such file", path, hint="is the name right, and the folder?")
        self.errno = errno.ENOENT
        self.strerror = os.strerror(errno.ENOENT)
        self.filename = path

    def __reduce__(self) -> tuple[type[MissingFileError], tuple[str | None]]:
        return type(self), (self.path,)
