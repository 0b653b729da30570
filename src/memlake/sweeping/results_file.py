"""The results file of a sweep: one line per result, appended as the results come, so that a sweep can go on later.

The file is JSON Lines. The first line names the format. Every other line has the CRC-32 of its rest, the key of the
result and the row. A program that was ended while it wrote leaves a last line that is not whole; it is dropped. Any
other damage is an error: the file is then left as it is.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import zlib
from typing import TYPE_CHECKING, Any

from memlake.errors import SweepError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ResultsFile"]

_HEADER = b'{"format": "memlake sweep results", "version": 1}\n'
_CHECK = b'{"check": "%08x", '
_CHECK_LENGTH = len(_CHECK % 0)


class ResultsFile:
    """The results of earlier runs, and the place for new ones. A context manager. Only one process may have it open.

    Args:
        path: the file; it is made if there is none.

    Attributes:
        rows: the rows by their keys.
        has_dropped: whether the last line was not whole and was dropped.

    Raises:
        SweepError: if the file cannot be used, is no results file, is damaged, or another process has it open.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fsdecode(path)
        self.rows: dict[str, dict[str, Any]] = {}
        self.has_dropped = False
        self._length = 0
        try:
            self._descriptor = _opened(self.path)
        except (OSError, ValueError) as error:
            raise self._problem(
                f"cannot be opened: {getattr(error, 'strerror', None) or error}",
                "name a file in a folder that you may write to (on the command line with --results)",
            ) from None
        try:
            self._lock()
            self._load()
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> ResultsFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file. All that was added is in it."""
        os.close(self._descriptor)

    def add(self, rows: Mapping[str, dict[str, Any]]) -> None:
        """Adds rows by their keys. A key that is there already is not added again.

        Raises:
            SweepError: if the file cannot be written. It then has what it had before.
        """
        new = {key: row for key, row in rows.items() if key not in self.rows}
        self._append(b"".join(_line(key, row) for key, row in new.items()))
        self.rows |= new

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._problem(
                "is in use by another sweep", "wait for that sweep, or name another file with --results"
            ) from None
        except OSError:
            return  # a file system without locks

    def _load(self) -> None:
        with open(os.dup(self._descriptor), "rb") as file:  # noqa: PTH123  a descriptor has no path
            content = file.read()
        if _HEADER.startswith(content):  # empty, or a header that was not written to its end
            self._truncate(0)
            self._append(_HEADER)
            return
        if not content.startswith(_HEADER):
            raise self._problem(
                "is no results file of a sweep", "name another file with --results; this one was left as it is"
            )
        lines = [line + b"\n" for line in content.split(b"\n")]
        lines[-1] = lines[-1][:-1]  # what is behind the last line break
        lines = lines if lines[-1] else lines[:-1]
        self._length = len(_HEADER)
        for number, line in enumerate(lines[1:], start=2):
            found = _parsed(line)
            if found is None and number == len(lines):
                self.has_dropped = True
                self._truncate(self._length)
            elif found is None:
                raise self._problem(
                    f"is damaged: line {number} of {len(lines)} is not what a sweep wrote",
                    "remove that line, or name another file with --results; this one was left as it is",
                )
            else:
                key, row = found
                self.rows.setdefault(key, row)
                self._length += len(line)

    def _append(self, data: bytes) -> None:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            self._truncate(self._length)
            if not self._length:
                os.unlink(self.path)  # noqa: PTH108  the name as it was given
            raise self._problem(
                f"cannot be written: {error.strerror or error}",
                "make room, or name a file elsewhere with --results; what is in the file stays valid, and the sweep "
                "goes on from there",
            ) from None
        self._length += len(data)

    def _truncate(self, length: int) -> None:
        os.ftruncate(self._descriptor, length)

    def _problem(self, what: str, hint: str) -> SweepError:
        return SweepError(f"the results file {self.path[:200]!r} {what}", hint)


def _opened(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("it is no regular file")
    return descriptor


def _line(key: str, row: dict[str, Any]) -> bytes:
    body = json.dumps({"key": key, "row": row}, allow_nan=False).encode()[1:] + b"\n"
    return _CHECK % zlib.crc32(body) + body


def _parsed(line: bytes) -> tuple[str, dict[str, Any]] | None:
    """Returns the key and the row of a line; None if the line is not whole."""
    body = line[_CHECK_LENGTH:]
    if not line.endswith(b"\n") or line[:_CHECK_LENGTH] != _CHECK % zlib.crc32(body):
        return None
    try:
        found = json.loads(line)
        return (found["key"], found["row"]) if isinstance(found["row"], dict) else None
    except (ValueError, KeyError):
        return None
