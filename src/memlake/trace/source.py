"""Reads an untrusted file: opens it without blocking, reads and decompresses it within a memory limit."""

from __future__ import annotations

import io
import os
import stat
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from memlake.trace.failure import NOT_READABLE, MissingFileError, TraceFileError
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Source", "read_source"]

Format = TypeVar("Format")

DAMAGED = "the file may be damaged: copy it, or save it again"
"""The hint for a file that begins as a trace and goes on as none."""
# The bytes that are read first: enough to identify every format by its first bytes or its first line.
HEAD = 64 * 1024
GZIP_MAGIC = b"\x1f\x8b"
# gzip packs text and pickles 5 to 10 times. A file with a larger ratio than this is made to exhaust memory.
LARGEST_GZIP_RATIO = 100
# The memory that reading may need for any file, even a very short one.
SMALL_CHANGE = 64 * 1024**2
# bgzip writes one member per 64 KiB. A file with more members than this is made to waste time.
MOST_GZIP_MEMBERS = 100_000


@dataclass(frozen=True)
class Source:
    """The content of one file, unpacked.

    Attributes:
        path: the file's name, for messages.
        data: its bytes.
        memory_limit: the most memory that reading it may need, in bytes.
    """

    path: str
    data: bytes
    memory_limit: int

    def error(self, reason: str, place: str | None = None, hint: str = DAMAGED) -> TraceFileError:
        """Returns the error for a fault of this file."""
        return TraceFileError(reason, self.path, place, hint)

    def require_memory(self, needed: int, place: str) -> None:
        """Checks the memory that the rows read so far need, in addition to the file. A small file may have many rows.

        Raises:
            TraceError: if the file and the rows need more than the limit.
        """
        if len(self.data) + needed > self.memory_limit:
            raise self.error(
                f"has so many rows that it needs more than the {format_bytes(self.memory_limit)} of memory that are "
                "allowed",
                place,
                hint="raise memory_limit if you trust it",
            )


class _Reader:
    """Reads one open file, plain or gzip, in two parts: the head, then the rest within the limit."""

    def __init__(self, file: BinaryIO, path: str, memory_limit: int) -> None:
        self._file = file
        self._path = path
        self._limit = memory_limit
        self._packed = file.read(HEAD)
        self._is_gzip = self._packed.startswith(GZIP_MAGIC)
        # None after the last member.
        self._inflate = zlib.decompressobj(wbits=31) if self._is_gzip else None
        self._nbytes_packed = len(self._packed)
        self._members = 1

    def read_head(self) -> bytes:
        """The first bytes, unpacked."""
        return self._unpack(HEAD) if self._is_gzip else self._packed

    def read_rest(self, head: bytes) -> bytes:
        """Everything, head included."""
        if not self._is_gzip:
            # read(n) allocates n bytes first, so n is the current size of the file and not the limit.
            self._file.seek(0)
            return self._file.read(os.fstat(self._file.fileno()).st_size)
        unpacked = io.BytesIO()
        part = head
        while part:
            nbytes = unpacked.tell() + len(part)
            if nbytes > self._limit:
                raise self.too_large(nbytes)
            if nbytes > SMALL_CHANGE + LARGEST_GZIP_RATIO * self._nbytes_packed:
                raise TraceFileError(
                    f"unpacks to more than {LARGEST_GZIP_RATIO} times its size, which no trace does",
                    self._path,
                    hint="unpack it by hand if you trust it",
                )
            unpacked.write(part)
            part = self._unpack(1024**2)
        return unpacked.getvalue()

    def _unpack(self, at_most: int) -> bytes:
        """The next unpacked bytes; empty at the end of the last gzip member."""
        while self._inflate is not None:
            try:
                part = self._inflate.decompress(self._packed, at_most)
            except zlib.error as error:
                raise self._broken(str(error)) from error
            self._packed = self._inflate.unconsumed_tail
            if self._inflate.eof:
                # A gzip file may have several members; zeros after the last member are padding.
                self._packed = self._inflate.unused_data.lstrip(b"\0") or self._fetch().lstrip(b"\0")
                self._inflate = zlib.decompressobj(wbits=31) if self._packed else None
                self._members += 1
                if self._members > MOST_GZIP_MEMBERS:
                    raise self._broken(f"it has more than {MOST_GZIP_MEMBERS} members")
            elif not self._packed and not part:
                self._packed = self._fetch()
                if not self._packed:
                    raise self._broken("it ends in the middle")
            if part:
                return part
        return b""

    def _fetch(self) -> bytes:
        packed = self._file.read(HEAD)
        self._nbytes_packed += len(packed)
        return packed

    def _broken(self, why: str) -> TraceFileError:
        return TraceFileError(
            f"is not a whole gzip file: {why}",
            self._path,
            f"packed byte {self._nbytes_packed - len(self._packed)}",
            "copy or download it again",
        )

    def too_large(self, nbytes: int) -> TraceFileError:
        """Returns the error for a file of at least `nbytes` bytes."""
        return TraceFileError(
            f"is too large: {format_bytes(nbytes)} or more, and {format_bytes(self._limit)} are allowed",
            self._path,
            hint="raise memory_limit, or record a shorter trace",
        )


def read_source(
    path: str | os.PathLike[str], memory_limit: int, identify: Callable[[bytes], Format]
) -> tuple[Source, Format]:
    """Reads a whole file, unpacked if it is gzip.

    It refuses everything but a regular file before it opens the file, because reading a FIFO or a terminal may block
    forever. It refuses a file that `identify` rejects before it reads the rest.

    Raises:
        TraceError: if the file is missing, not regular, empty, larger than the limit or broken gzip, if it changes
            while it is read, or if `identify` rejects it.
    """
    name = os.fsdecode(path)
    if "\0" in name:
        raise TraceFileError(
            "is no file name: it contains a zero byte", name.replace("\0", "\\0"), hint="give the name of a file"
        )
    try:
        _refuse_unless_regular(os.stat(path), name)  # noqa: PTH116  Path() would refuse names that os.stat explains
        # The file may have been replaced since os.stat, so it is opened without blocking and checked again.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            _refuse_unless_regular(found, name)
            reader = _Reader(file, name, memory_limit)
            head = reader.read_head()
            if not head:
                raise TraceFileError("is empty", name, hint="was the program that wrote it interrupted?")
            try:
                identified = identify(head)
            except TraceFileError as error:
                raise TraceFileError(error.reason, name, error.place, error.hint) from None
            if found.st_size > memory_limit:
                raise reader.too_large(found.st_size)
            data = reader.read_rest(head)
            _refuse_if_changed(found, os.fstat(descriptor), name)
            return Source(name, data, memory_limit), identified
    except FileNotFoundError as error:
        raise MissingFileError(name) from error
    except OSError as error:
        raise TraceFileError(f"cannot be read: {error.strerror or error}", name, hint=NOT_READABLE) from error


def _refuse_unless_regular(found: os.stat_result, name: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise TraceFileError("is a directory", name, hint="name a file in it")
    if not stat.S_ISREG(found.st_mode):
        raise TraceFileError("is no regular file", name, hint="save what it gives to a file and load that")


def _refuse_if_changed(before: os.stat_result, after: os.stat_result, name: str) -> None:
    """Refuses content of which a part may be older than the rest. A file that is replaced stays open as it was."""
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise TraceFileError(
            "changed while it was read", name, hint="wait until the program that writes it has finished"
        )
