"""The paths of the shared libraries and headers that ship with memlake."""

from __future__ import annotations

from pathlib import Path

from memlake.errors import ConfigError

__all__ = ["cuda_library_directory", "emulator_library", "include_directory", "native_library"]

_LIBRARIES = Path(__file__).parent / "lib"
_HEADERS = Path(__file__).parent / "include"


def emulator_library() -> str:
    """Returns the path of the emulated CUDA driver, which exports the C functions of ``libcuda.so.1``."""
    return str(_existing(_LIBRARIES / "libmemlake_emulator.so"))


def cuda_library_directory() -> str:
    """Returns a folder in which ``libcuda.so.1`` is the emulator, and ``libnvidia-ml.so.1`` is NVML for its devices.

    With this folder first in ``LD_LIBRARY_PATH``, a program uses the emulator as its driver. ``memlake emulate --
    COMMAND`` runs a program this way. The folder also has ``libcuda.so`` and ``libnvidia-ml.so``, so that ``gcc
    program.c -L FOLDER -lcuda`` links a program that then needs any ``libcuda.so.1``.
    """
    return str(_existing(_LIBRARIES / "cuda" / "libcuda.so.1").parent)


def native_library() -> str:
    """Returns the path of the native core, which has the C functions of ``memlake.h`` for C programs and PyTorch.

    The Python module uses the same library, so a process has one core. C functions that get a `Pool.native_handle` work
    on the same pool as Python.
    """
    return str(_existing(_LIBRARIES / "libmemlake.so"))


def include_directory() -> str:
    """Returns the folder of ``memlake.h``, for the option ``-I`` of a C compiler."""
    return str(_existing(_HEADERS / "memlake.h").parent)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise ConfigError(f"{path} does not exist: memlake was not built, or the installation is damaged")
    return path
