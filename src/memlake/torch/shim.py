"""The loaded shim: its C functions as Python methods."""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING

from memlake import _native  # noqa: F401  the shim needs libmemlake.so in the process
from memlake.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memlake.torch.torch_build import TorchBuild

__all__ = ["Shim"]


class Shim:
    """A shim that is loaded into this process.

    Args:
        path: the file of the shim.
        build: the PyTorch of this process.

    Raises:
        ConfigError: if the file cannot be loaded, or was made for another version of PyTorch.
    """

    def __init__(self, path: Path, build: TorchBuild) -> None:
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise ConfigError(f"memlake's shim for PyTorch {build.version} cannot be loaded: {error}") from error
        self._library.memlake_shim_last_error.restype = ctypes.c_char_p
        self._library.memlake_shim_install.argtypes = [ctypes.c_char_p, ctypes.c_ulonglong]
        minor = self._library.memlake_shim_torch_minor()
        if minor != build.minor:
            raise ConfigError(
                f"the shim at {path} was made for PyTorch 2.{minor}, and this is PyTorch {build.version}; "
                "delete the file, and memlake makes another one"
            )

    def install(self, configuration: str, served: int) -> None:
        """Makes memlake PyTorch's allocator. `served`: one bit per device.

        Raises:
            ConfigError: if PyTorch uses another allocator.
        """
        self._check(self._library.memlake_shim_install(configuration.encode(), served))

    def uninstall(self) -> None:
        """Makes PyTorch's own allocator the current one again."""
        self._check(self._library.memlake_shim_uninstall())

    @contextlib.contextmanager
    def history_apart(self) -> Iterator[None]:
        """Inside the block, a history that this thread turns on is about memlake's memory only."""
        self._library.memlake_shim_set_history_apart(1)
        try:
            yield
        finally:
            self._library.memlake_shim_set_history_apart(0)

    def _check(self, code: int) -> None:
        if code != 0:
            reason: bytes = self._library.memlake_shim_last_error()
            raise ConfigError(reason.decode(errors="replace"))
