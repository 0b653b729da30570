"""Where the shared libraries lie that ship with memlake."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from memlake.errors import ConfigError

__all__ = ["cuda_library_directory", "emulator_library", "native_library"]

_LIBRARIES = Path(__file__).parent / "lib"


def emulator_library() -> str:
    """The emulated CUDA driver. It exports the C functions of ``libcuda.so.1``; programs can load it in its place."""
    return str(_existing(_LIBRARIES / "libmemlake_emulator.so"))


def cuda_library_directory() -> str:
    """A folder with a ``libcuda.so.1`` that is the emulator: put it first in ``LD_LIBRARY_PATH`` to place the emulator
    under another program (``memlake emulate -- COMMAND`` does)."""
    return str(_existing(_LIBRARIES / "cuda" / "libcuda.so.1").parent)


def native_library() -> str:
    """The native core."""
    spec = find_spec("memlake._native")
    if spec is None or spec.origin is None:
        raise ConfigError("memlake's native module is missing: this is a source tree, not an installed package")
    return str(_existing(Path(spec.origin)))


def _existing(path: Path) -> Path:
    if not path.exists():
        raise ConfigError(f"{path} does not exist: memlake was not built, or the installation is damaged")
    return path
