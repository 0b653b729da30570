"""The results file of a sweep: one line per result, appended as the results come, so that a sweep can go on later.

The file is JSON Lines. The first line names the format. Every other line has the CRC-32 of its rest, and either the key
of a result and its row, or the description of a sweep: its files and its settings. A program that was ended while it
wrote leaves a last line that is not whole; it is dropped. Any other damage is an error: the file is then left as it is.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memlake.errors import SweepError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FORMAT", "ResultsContent", "ResultsFile"]

FORMAT = b'{"format": "memlake sweep results", '
"""What every results file begins with, of any version."""
_HEADER = FORMAT + b'"version": 2}\n'
_CHECK = b'{"check": "%08x", '
_CHECK_LENGTH = len(_CHECK % 0)


@dataclass
class ResultsContent:
    """The content of a results file.

    Attributes:
        rows: the rows by their keys.
        sweep: the description of the last sweep; None if there is none.
        length: the bytes up to the last whole line.
        has_dropped: whether the last line is not whole.
    """

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    sweep: dict[str, Any] | None = None
    length: int = 0
    has_dropped: bool = False

    @classmethod
    def parsed(cls, content: bytes) -> ResultsContent:
        """Reads the content of a file.

        Raises:
            ValueError: if it is no results file, or is damaged. The arguments are what is wrong, and a hint.
        """
        if content.startswith(FORMAT) and not content.startswith(_HEADER):
            raise ValueError("is of another version of memlake", "sweep the files again into another results file")
        if not content.startswith(_HEADER):
            raise ValueError("is no results file of a sweep", "name a file that memlake sweep wrote with --results")
        lines = [line + b"\n" for line in content.split(b"\n")]
        lines[-1] = lines[-1][:-1]  # what is behind the last line break
        lines = lines if lines[-1] else lines[:-1]
        found = cls(length=len(_HEADER))
        for number, line in enumerate(lines[1:], start=2):
            parts = _parsed(line)
            if parts is None and number == len(lines):
                found.has_dropped = True
            elif parts is None:
                raise ValueError(
                    f"is damaged: line {number} of {len(lines)} is not what a sweep wrote",
                    "remove that line, or name another file",
                )
            else:
                if "sweep" in parts:
                    found.sweep = parts["sweep"]
                else:
                    found.rows.setdefault(parts["key"], parts["row"])
                found.length += len(line)
        return found


class ResultsFile:
    """The results of earlier runs, and the place for new ones. A context manager. Only one process may have it open.

    Args:
        path: the file; it is made if there is none.

    Attributes:
        rows: the rows by their keys.
        sweep: the description of the last sweep that used the file; None if there is none.
        has_dropped: whether the last line was not whole and was dropped.

    Raises:
        SweepError: if the file cannot be used, is no results file, is damaged, or another process has it open.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fsdecode(path)
        self.rows: dict[str, dict[str, Any]] = {}
        self.sweep: dict[str, Any] | None = None
        self.has_dropped = False
        self._length = 0
        try:
            self._descriptor, self._is_new = _opened(self.path)
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
        """Closes the file. All that was added is in it. A new file that got no result is removed."""
        if self._is_new and not self.rows:
            with suppress(OSError):
                os.unlink(self.path)  # noqa: PTH108  the name as it was given
        os.close(self._descriptor)

    def add(self, rows: Mapping[str, dict[str, Any]]) -> None:
        """Adds rows by their keys. A key that is there already is not added again.

        Raises:
            SweepError: if the file cannot be written. It then has what it had before.
        """
        new = {key: row for key, row in rows.items() if key not in self.rows}
        self._append(b"".join(_line({"key": key, "row": row}) for key, row in new.items()))
        self.rows |= new

    def describe(self, sweep: dict[str, Any]) -> None:
        """Adds the description of a sweep, unless the last one is the same.

        Raises:
            SweepError: if the file cannot be written. It then has what it had before.
        """
        if sweep != self.sweep:
            self._append(_line({"sweep": sweep}))
            self.sweep = sweep

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
        try:
            found = ResultsContent.parsed(content)
        except ValueError as error:
            what, hint = error.args
            raise self._problem(what, f"{hint}; this one was left as it is") from None
        self.rows, self.sweep, self.has_dropped = found.rows, found.sweep, found.has_dropped
        self._length = found.length
        if found.has_dropped:
            self._truncate(self._length)

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


def _opened(path: str) -> tuple[int, bool]:
    """Returns the descriptor of a file, and whether the file is new."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    try:
        descriptor, is_new = os.open(path, flags | os.O_EXCL, 0o666), True
    except FileExistsError:
        descriptor, is_new = os.open(path, flags, 0o666), False
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("it is no regular file")
    return descriptor, is_new


def _line(content: dict[str, Any]) -> bytes:
    body = json.dumps(content, allow_nan=False).encode()[1:] + b"\n"
    return _CHECK % zlib.crc32(body) + body


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Returns what a line has; None if the line is not whole."""
    body = line[_CHECK_LENGTH:]
    if not line.endswith(b"\n") or line[:_CHECK_LENGTH] != _CHECK % zlib.crc32(body):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    is_result = isinstance(found.get("key"), str) and isinstance(found.get("row"), dict)
    return found if is_result or isinstance(found.get("sweep"), dict) else None
