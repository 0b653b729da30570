"""Writes a file: all of it, or nothing."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from memlake.errors import ConfigError

if TYPE_CHECKING:
    import os

__all__ = ["write_whole"]


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a temporary file beside the target and renames it. A target that exists is replaced.

    Raises:
        ConfigError: if the file cannot be written; nothing is left then.
    """
    target = Path(path)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        try:
            with part.open("xb") as file:
                file.write(content)
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(
            f"cannot write {str(path)!r}: {error.strerror or error}; hint: choose a folder that you may write to and "
            "that has room"
        ) from None
