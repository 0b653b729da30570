"""The folder of the sockets: only its user can open it."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from memlake.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ENDING", "PublishFolder"]

ENDING = ".sock"
"""The names of sockets end with this."""

_OTHERS = 0o077


class PublishFolder:
    """An open folder for sockets. It was checked after it was opened, so that nobody can put another in its place.

    Args:
        path: the folder.
        make: whether to make it if there is none.

    Raises:
        ConfigError: if it is no folder, belongs to another user, or others may open it.
        OSError: if it cannot be opened or made.
    """

    def __init__(self, path: str, *, make: bool = False) -> None:
        self.path = path
        if make:
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)  # noqa: PTH102  Path.mkdir would ignore what is there
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (NotADirectoryError, OSError) as error:
            if Path(path).is_symlink() or isinstance(error, NotADirectoryError):
                raise ConfigError(f"{path!r} is no folder; hint: remove it, memlake makes a folder there") from None
            raise
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    @classmethod
    def home(cls) -> PublishFolder:
        """Opens the folder in which a process publishes, and makes it if there is none.

        It is in ``$XDG_RUNTIME_DIR``, or else in ``/tmp``.

        Raises:
            ConfigError: if the folder must not be used.
            OSError: if it cannot be made.
        """
        return cls(_candidates()[0], make=True)

    @classmethod
    def all(cls) -> Iterator[PublishFolder]:
        """Opens every folder in which processes of this user may publish, and closes it afterwards.

        A program that was started outside a session has no ``$XDG_RUNTIME_DIR``, so a reader looks into both.

        Raises:
            ConfigError: if the first of them, in which this process would publish, must not be used. Another one that
                must not be used has no sockets of this user.
        """
        for place, path in enumerate(_candidates()):
            try:
                folder = cls(path)
            except OSError:
                continue
            except ConfigError:
                if place == 0:
                    raise
                continue
            with folder:
                yield folder

    def __enter__(self) -> PublishFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the folder."""
        os.close(self._descriptor)

    def sockets(self) -> list[str]:
        """Returns the names of the sockets in the folder."""
        names = os.listdir(self._descriptor)  # noqa: PTH208  a descriptor has no path
        return sorted(name for name in names if name.endswith(ENDING) and not name.startswith("."))

    def address_of(self, name: str) -> str:
        """Returns a short path of a file in the folder: the name of a socket has at most 107 bytes."""
        return f"/proc/self/fd/{self._descriptor}/{name}"

    def rename(self, old: str, new: str) -> None:
        """Renames a file in the folder."""
        os.rename(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        """Removes a file in the folder, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def _check(self) -> None:
        found = os.fstat(self._descriptor)
        if found.st_uid != os.geteuid():
            raise ConfigError(
                f"the folder {self.path!r} belongs to user {found.st_uid} and not to user {os.geteuid()}; hint: set "
                "XDG_RUNTIME_DIR to a folder of your own"
            )
        if stat.S_IMODE(found.st_mode) & _OTHERS:
            raise ConfigError(
                f"other users may open the folder {self.path!r} (its mode is {stat.S_IMODE(found.st_mode):o}); hint: "
                f"chmod 700 {self.path}"
            )


def _candidates() -> list[str]:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    own = [os.path.join(runtime, "memlake")] if os.path.isdir(runtime) else []  # noqa: PTH112, PTH118
    return [*own, f"/tmp/memlake-{os.geteuid()}"]
