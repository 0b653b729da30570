"""Writes a trace to a file: the whole trace, or nothing."""

from __future__ import annotations

import gzip
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from memlake.errors import ConfigError
from memlake.trace.npz import write_npz
from memlake.trace.parquet import write_parquet
from memlake.trace.text import write_text

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from memlake.trace.trace import Trace

__all__ = ["check_name", "save"]


def _save_npz(trace: Trace, file: BinaryIO) -> None:
    file.write(write_npz(trace))


def _save_text(trace: Trace, file: BinaryIO) -> None:
    file.writelines(line.encode() for line in write_text(trace))


def _save_packed_text(trace: Trace, file: BinaryIO) -> None:
    # Without a time and a file name in the header, equal traces give equal bytes.
    with gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.writelines(line.encode() for line in write_text(trace))


FORMATS: dict[str, Callable[[Trace, BinaryIO], None]] = {
    ".npz": _save_npz,
    ".txt": _save_text,
    ".txt.gz": _save_packed_text,
    ".parquet": write_parquet,
}


def check_name(target: Path) -> Callable[[Trace, BinaryIO], None]:
    """Returns the function that writes the format of a file.

    Raises:
        ConfigError: if the ending of the name is unknown.
    """
    write = next((write for ending, write in FORMATS.items() if target.name.endswith(ending)), None)
    if write is None:
        raise ConfigError(f"{target.name!r} does not say in which format to save; known: {', '.join(FORMATS)}")
    return write


def save(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Writes a trace to a temporary file beside the target, then renames it. The ending selects the format.

    Raises:
        ConfigError: if the ending is unknown, or pyarrow is not installed for Parquet.
        OSError: if the file cannot be written.
    """
    target = Path(path)
    write = check_name(target)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with part.open("xb") as file:
            write(trace, file)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
