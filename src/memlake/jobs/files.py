"""The files of a job: the snapshots in a folder, the files that match a pattern, or files by their names."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from memlake.errors import ConfigError
from memlake.trace import MissingFileError, TraceFileError, example_traces
from memlake.wording import counted, shorten_end

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["ENDINGS", "MOST_FILES", "FoundFiles", "find_files", "has_wildcard"]

ENDINGS = tuple(ending + packed for ending in (".pickle", ".pkl", ".npz") for packed in ("", ".gz"))
"""The endings of the names of snapshots. Other files of a folder are ignored; a pattern takes every file."""
MOST_FILES = 4096
"""The most files that are taken at once."""

_WILDCARD = re.compile(r"[*?]|\[[^]]+\]")
_MOST_NAMES = 3


@dataclass
class FoundFiles:
    """The files of a job, and what was left out.

    Attributes:
        paths: the files, each once, in no particular order.
        num_ignored: the number of other files in the folders, and of folders that a pattern matches.
        ignored: the names of the first of these, by name.
        num_repeated: how often a file was named again, also through a symbolic link.
    """

    paths: list[str] = field(default_factory=list)
    num_ignored: int = 0
    ignored: list[str] = field(default_factory=list)
    num_repeated: int = 0
    _seen: set[tuple[int, int]] = field(default_factory=set, repr=False)

    def ignore(self, name: str) -> None:
        """Counts a file that is left out. Only the first names are kept: a folder may have millions of files."""
        self.num_ignored += 1
        self.ignored = sorted([*self.ignored, name])[:_MOST_NAMES]

    def add(self, path: str) -> None:
        """Adds a file, unless it was added before under this or another name.

        Raises:
            ConfigError: if there are too many.
        """
        try:
            found = os.stat(path)  # noqa: PTH116  Path() would change the name
        except OSError:
            pass  # the reader of the file says what is wrong with it
        else:
            place = (found.st_dev, found.st_ino)
            if place in self._seen:
                self.num_repeated += 1
                return
            self._seen.add(place)
        self.paths.append(path)
        if len(self.paths) > MOST_FILES:
            raise ConfigError(f"these are more than {MOST_FILES} files; hint: name fewer, for instance with a pattern")


def has_wildcard(name: str) -> bool:
    """Whether a name is a pattern such as ``"rank*.pickle"``."""
    return _WILDCARD.search(name) is not None


def find_files(given: Iterable[str | os.PathLike[str]]) -> FoundFiles:
    """Returns the files that the names mean. A name is that of a file, a folder or an example, or a pattern.

    A folder means the files in it, not in its subfolders, whose names have one of the `ENDINGS`. A pattern has the
    wildcards ``*``, ``?``, ``[...]`` and ``**``; the last one does not follow symbolic links. Hidden files belong to
    neither, unless the pattern names the dot.

    Raises:
        ConfigError: if a name is empty or not usable, or if a folder or a pattern has no files.
        TraceError: if there is no such file, which is also a FileNotFoundError, or a folder cannot be read.
    """
    found = FoundFiles()
    for one in given:
        name = os.fsdecode(one)
        if not name or "\0" in name:
            what = "has a NUL character" if name else "is empty"
            raise ConfigError(
                f"the name of a file {what}; hint: give files, a folder, or a pattern such as 'rank*.pickle'"
            )
        if os.path.isdir(name):  # noqa: PTH112  Path() refuses names that are too long with another exception
            _add_folder(name, found)
        elif os.path.lexists(name):
            found.add(name)
        elif name in (examples := example_traces()):
            found.add(str(examples[name]))
        elif has_wildcard(name):
            _add_matching(name, found)
        else:
            raise MissingFileError(name)
    if not found.paths:
        raise ConfigError("no files were given; hint: give files, a folder, or a pattern such as 'rank*.pickle'")
    return found


def _add_folder(folder: str, found: FoundFiles) -> None:
    num_before = len(found.paths) + found.num_repeated
    folders = []
    ignored_before = found.num_ignored
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if _is_folder(entry):
                    folders.append(entry.name)
                elif entry.name.startswith(".") or not entry.name.lower().endswith(ENDINGS):
                    found.ignore(entry.name)
                else:
                    found.add(entry.path)
    except OSError as error:
        raise TraceFileError(
            f"cannot be read: {error.strerror or error}", folder, hint="give a folder that you may read"
        ) from None
    if len(found.paths) + found.num_repeated > num_before:
        return
    others = found.num_ignored - ignored_before
    has = "it has no other files"
    if others:
        has = f"its {counted(others, 'other file is', 'other files are')} ignored"
    raise ConfigError(
        f"{_short(folder)} is a directory without snapshots: no file in it has a name that ends with .pickle, .pkl or "
        f".npz (or these with .gz), and {has}; hint: {_hint(folder, sorted(folders))}"
    )


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a symbolic link that leads to itself
        return False


def _hint(folder: str, folders: list[str]) -> str:
    """Returns where the snapshots may be instead."""
    for inner in folders[:100]:
        try:
            with os.scandir(Path(folder, inner)) as entries:
                if any(entry.name.lower().endswith(ENDINGS) for entry in entries):
                    inside = str(Path(folder, inner))
                    pattern = str(Path(folder, "*", "*.pickle"))
                    return (
                        f"there are some in {_short(inside)}: name that folder, or a pattern such as {_short(pattern)}"
                    )
        except OSError:
            continue
    return "name another folder, the files, or a pattern"


def _add_matching(pattern: str, found: FoundFiles) -> None:
    whole = Path(pattern).expanduser()
    hidden = any(part.startswith(".") and part not in (".", "..") for part in whole.parts)
    num_before = len(found.paths) + found.num_repeated
    num_folders = 0
    try:
        for path in _glob(whole):
            if path.name.startswith(".") and not hidden:
                found.ignore(path.name)
            elif os.path.isdir(path):  # noqa: PTH112  an unreadable one is no error here
                num_folders += 1
                found.ignore(path.name)
            else:
                found.add(str(path))
    except (OSError, ValueError, NotImplementedError, RecursionError) as error:
        raise ConfigError(
            f"the pattern {_short(pattern)} cannot be used: {error}; hint: give files, or a folder"
        ) from None
    if len(found.paths) + found.num_repeated == num_before:
        only = f", only {counted(num_folders, 'folder')}" if num_folders else ""
        raise ConfigError(
            f"no file matches the pattern {_short(pattern)}{only}; hint: a folder by its name means all snapshots in it"
        )


def _glob(pattern: Path) -> Iterator[Path]:
    if pattern.is_absolute():
        return Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor)))
    return Path().glob(str(pattern))


def _short(name: str) -> str:
    return repr(shorten_end(name, 80))
