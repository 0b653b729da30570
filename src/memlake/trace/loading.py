"""Detects the format of a trace file by its content and calls the reader of that format."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memlake.errors import ConfigError
from memlake.trace.csv_table import is_csv_line, read_csv
from memlake.trace.failure import TraceFileError
from memlake.trace.from_rmm import is_rmm_line, read_rmm
from memlake.trace.from_torch import read_snapshot
from memlake.trace.npz import read_npz
from memlake.trace.parquet import read_parquet
from memlake.trace.source import GZIP_MAGIC, read_source
from memlake.trace.text import read_text

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from memlake.trace.trace import Trace

__all__ = ["load"]

KNOWN = (
    "memlake reads its own .npz, text, CSV and Parquet traces, PyTorch memory snapshots, RMM's CSV logs, and gzip of "
    "these"
)

# A pickle of protocol 2 or later names its protocol. An older one begins with a dict or a list and its memo entry.
_PICKLE = re.compile(rb"\x80[\x00-\x0f]|[\]}][qr\x94(]|\([dl]p0\n")
_FOREIGN = {
    b"\x93NUMPY": "is a single NumPy array; a trace is an .npz file with one array per column",
    GZIP_MAGIC: "is gzip within gzip; unpack it once",
    b"SQLite format 3": "is a database (of a profiler?); export what it holds",
}


def load(
    path: str | os.PathLike[str],
    device: int | None,
    memory_limit: int,
    progress: Callable[[int, int], object] | None = None,
) -> Trace:
    """Reads a file of any known format; see `Trace.load`."""
    try:
        source, name = read_source(path, memory_limit, identify)
        if name == "snapshot":
            return read_snapshot(source, device, progress)
        if device is not None:
            raise ConfigError(
                f"device {device} was asked for, but only PyTorch snapshots know devices; hint: leave the device out"
            )
        return _READERS[name](source)
    except MemoryError as error:
        raise TraceFileError("needs more memory than there is", str(path), hint="record a shorter trace") from error


_READERS = {"npz": read_npz, "RMM log": read_rmm, "text": read_text, "CSV": read_csv, "Parquet": read_parquet}


def identify(head: bytes) -> str:
    """Returns the name of the format of a file that begins with these bytes.

    Raises:
        TraceError: if the format is unknown.
    """
    if head.startswith((b"PK\3\4", b"PK\5\6")):
        return "npz"
    if _PICKLE.match(head):
        return "snapshot"
    if head.startswith(b"PAR1"):
        return "Parquet"
    for magic, what in _FOREIGN.items():
        if head.startswith(magic):
            raise TraceFileError(what, hint=KNOWN)
    # No text has these control characters, and the first bytes of a damaged binary file are likely among them.
    if odd := re.search(rb"[\x00-\x08\x0e-\x1f\x7f]", head):
        raise TraceFileError("is no file that memlake knows", place=f"byte {odd.start()}", hint=KNOWN)
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "[", "<"):
        what = "is JSON or HTML, perhaps a profiler's output, which does not say all that a replay needs"
        raise TraceFileError(what, hint="record a snapshot: torch.cuda.memory._record_memory_history()")
    first = next((line for line in text.splitlines() if line.strip()), "")
    if is_csv_line(first):
        return "CSV"
    return "RMM log" if is_rmm_line(first) else "text"
