"""Writes a trace to a file: the whole trace, or nothing."""

from __future__ import annotations

import gzip
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from memlake.errors import ConfigError
from memlake.trace.csv_table import lost_in_csv, write_csv
from memlake.trace.npz import write_npz
from memlake.trace.parquet import lost_in_parquet, write_parquet
from memlake.trace.text import lost_in_text, write_text
from memlake.trace.to_rmm import lost_in_rmm, write_rmm
from memlake.trace.to_torch import lost_in_snapshot, write_snapshot

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from memlake.trace.trace import Trace

__all__ = ["FORMATS", "check_name", "lost_in", "save"]


def _save_npz(trace: Trace, file: BinaryIO) -> None:
    file.write(write_npz(trace))


def _save_text(trace: Trace, file: BinaryIO) -> None:
    file.writelines(line.encode() for line in write_text(trace))


def _save_packed_text(trace: Trace, file: BinaryIO) -> None:
    # Without a time and a file name in the header, equal traces give equal bytes.
    with gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.writelines(line.encode() for line in write_text(trace))


def _save_rmm(trace: Trace, file: BinaryIO) -> None:
    file.writelines(line.encode() for line in write_rmm(trace))


def _save_csv(trace: Trace, file: BinaryIO) -> None:
    file.writelines(line.encode("utf-8", "surrogateescape") for line in write_csv(trace))


class Format(NamedTuple):
    """A format of files: the function that writes it, and the one that says what it cannot hold of a trace."""

    write: Callable[[Trace, BinaryIO], None]
    lost: Callable[[Trace], list[str]] = lambda trace: []


# The first ending that a name has decides.
FORMATS = {
    ".npz": Format(_save_npz),
    ".txt": Format(_save_text, lost_in_text),
    ".txt.gz": Format(_save_packed_text, lost_in_text),
    ".parquet": Format(write_parquet, lost_in_parquet),
    ".pickle": Format(write_snapshot, lost_in_snapshot),
    ".rmm.csv": Format(_save_rmm, lost_in_rmm),
    ".csv": Format(_save_csv, lost_in_csv),
}


def lost_in(trace: Trace, path: str | os.PathLike[str]) -> list[str]:
    """Returns what a trace loses if it is saved under a name: the rest of a sentence about the file, one each."""
    return check_name(Path(path)).lost(trace)


def check_name(target: Path) -> Format:
    """Returns the format of a file.

    Raises:
        ConfigError: if the ending of the name is unknown.
    """
    found = next((one for ending, one in FORMATS.items() if target.name.endswith(ending)), None)
    if found is None:
        raise ConfigError(
            f"{target.name!r} does not say in which format to save; hint: end it with {', '.join(FORMATS)}"
        )
    return found


def save(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Writes a trace to a temporary file beside the target, then renames it. The ending selects the format.

    Raises:
        ConfigError: if the ending is unknown, or pyarrow is not installed for Parquet.
        OSError: if the file cannot be written.
    """
    target = Path(path)
    write = check_name(target).write
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with part.open("xb") as file:
            write(trace, file)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
