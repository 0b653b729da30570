"""Where the shared libraries lie that ship with memlake."""

from __future__ import annotations

from pathlib import Path

from memlake.errors import ConfigError

__all__ = ["cuda_library_directory", "emulator_library", "include_directory", "native_library"]

_LIBRARIES = Path(__file__).parent / "lib"
_HEADERS = Path(__file__).parent / "include"


def emulator_library() -> str:
    """The emulated CUDA driver. It exports the C functions of ``libcuda.so.1``; programs can load it in its place."""
    return str(_existing(_LIBRARIES / "libmemlake_emulator.so"))


def cuda_library_directory() -> str:
    """A folder with a ``libcuda.so.1`` that is the emulator: put it first in ``LD_LIBRARY_PATH`` to place the emulator
    under another program (``memlake emulate -- COMMAND`` does)."""
    return str(_existing(_LIBRARIES / "cuda" / "libcuda.so.1").parent)


def native_library() -> str:
    """The native core, with the C functions of ``memlake.h``: what C programs, ctypes and PyTorch load.

    Python's own module uses this same library, so there is one core in a process: a `Pool` and what C functions do with
    its `native_handle` are the same pool.
    """
    return str(_existing(_LIBRARIES / "libmemlake.so"))


def include_directory() -> str:
    """The folder of ``memlake.h``, for a C compiler's ``-I``."""
    return str(_existing(_HEADERS / "memlake.h").parent)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise ConfigError(f"{path} does not exist: memlake was not built, or the installation is damaged")
    return path
