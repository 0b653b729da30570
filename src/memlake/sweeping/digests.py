"""Digests: the SHA-256 of the content of files."""

from __future__ import annotations

import hashlib
import os
import stat
from functools import partial
from typing import TYPE_CHECKING

from memlake.analysis.workers import run_all
from memlake.trace import MissingFileError, TraceFileError
from memlake.trace.failure import NOT_READABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["digest_of", "digests_of"]

_PART = 2**20


def digest_of(path: str) -> str:
    """Returns the SHA-256 of a file's content as text.

    Raises:
        OSError: if the file cannot be read, or is no regular file: reading a FIFO may block forever.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123  a descriptor has no path
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is no regular file")
        found = hashlib.sha256()
        while part := file.read(_PART):
            found.update(part)
        return found.hexdigest()


def digests_of(paths: Sequence[str]) -> dict[str, str | TraceFileError]:
    """Returns the digest of each file, or why it cannot be read. Files are read on all cores."""
    return dict(zip(paths, run_all([partial(_digest_or_error, path) for path in paths]), strict=True))


def _digest_or_error(path: str) -> str | TraceFileError:
    try:
        return digest_of(path)
    except FileNotFoundError:
        return MissingFileError(path)
    except OSError as error:
        return TraceFileError(f"cannot be read: {error.strerror or error}", path, hint=NOT_READABLE)
