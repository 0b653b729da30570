"""The files that commands write."""

from __future__ import annotations

from pathlib import Path

from memlake.errors import ConfigError

__all__ = ["refuse_to_replace"]


def refuse_to_replace(name: str, force: bool, example: str) -> None:
    """Refuses a file that exists, and a place where no file can be.

    Args:
        name: the file that a command shall write.
        force: whether an existing file may be replaced.
        example: a name of a file for the message about a directory.

    Raises:
        ConfigError: if the file must not be written, or cannot be.
    """
    out = Path(name)
    try:
        if "\0" in name:
            raise ValueError("it has a NUL character")
        exists = out.exists() or out.is_symlink()
        is_folder = out.is_dir()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{str(out)[:80]!r} is no name of a file: {error}; hint: choose another one") from None
    if is_folder:
        raise ConfigError(f"{str(out)!r} is a directory; hint: name a file in it, such as {str(out / example)!r}")
    if exists and not force:
        raise ConfigError(f"{str(out)!r} exists; hint: choose another name, or replace it with --force")
    if not out.absolute().parent.is_dir():
        raise ConfigError(f"there is no directory {str(out.parent)!r} for {out.name!r}; hint: make it first")
