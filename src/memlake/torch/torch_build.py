"""The installed PyTorch: what memlake must know of it before it becomes its allocator."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memlake.errors import ConfigError

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["OLDEST_MINOR", "TorchBuild", "import_torch", "installed_build"]

OLDEST_MINOR = 6


@dataclass(frozen=True)
class TorchBuild:
    """One build of PyTorch.

    Attributes:
        version: the full version, such as ``"2.13.0+cu130"``.
        minor: the 13 of 2.13.
        folder: the folder of the package, with ``include/`` and ``lib/``.
        has_new_strings: whether it was compiled with the new ABI of libstdc++ (``_GLIBCXX_USE_CXX11_ABI``).
    """

    version: str
    minor: int
    folder: Path
    has_new_strings: bool


def import_torch() -> ModuleType:
    """Imports PyTorch.

    Raises:
        ConfigError: if it is not installed.
    """
    if importlib.util.find_spec("torch") is None:
        raise ConfigError("PyTorch is not installed here; memlake.torch is for programs that use it: pip install torch")
    return importlib.import_module("torch")


def installed_build() -> TorchBuild:
    """Returns the build of PyTorch in this process.

    Raises:
        ConfigError: if there is none, if it has no CUDA, or if its version is not supported.
    """
    torch = import_torch()
    version, file = str(torch.__version__), str(torch.__file__)
    if torch.version.cuda is None:
        what = "for AMD GPUs (ROCm)" if torch.version.hip is not None else "without CUDA"
        raise ConfigError(
            f"this PyTorch ({version}) was built {what}, so it has no CUDA memory for memlake to manage; "
            "install a CUDA build of PyTorch"
        )
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or int(numbers[1]) != 2 or int(numbers[2]) < OLDEST_MINOR:
        raise ConfigError(f"memlake.torch needs PyTorch 2.{OLDEST_MINOR} or a newer 2.x, and this is {version}")
    return TorchBuild(
        version, int(numbers[2]), Path(file).parent, bool(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    )
