"""Installing memlake without touching a program: ``MEMLAKE_TORCH=lake python train.py``.

``memlake torch enable`` puts one line into the environment's site-packages, which Python runs at its start. Without the
variable the line reads the environment and does nothing else. With it, memlake is installed as soon as the program has
imported PyTorch.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from typing import TYPE_CHECKING

from memlake.errors import MemlakeError
from memlake.torch.installing import install

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["VARIABLE", "install_after_import", "install_from_text"]

VARIABLE = "MEMLAKE_TORCH"
_POOL_KEYS = ("limit", "spill")


def install_from_text(text: str) -> None:
    """Installs memlake as a text says: a policy as in `memlake.policy`, with ``limit:`` and ``spill:`` beside it.

    Raises:
        ConfigError: if the text or the situation is not right; see `memlake.torch.install`.
    """
    settings = [part.strip() for part in text.split(",")]
    taken: dict[str, str] = {}
    rest = []
    for part in settings:
        key, colon, value = part.partition(":")
        if colon and key.strip() in _POOL_KEYS:
            taken[key.strip()] = value.strip()
        else:
            rest.append(part)
    policy = ",".join(filter(None, rest)) or "lake"
    install(policy, limit=taken.get("limit"), spill=taken.get("spill"))  # type: ignore[arg-type]  # it checks the word


def install_after_import() -> None:
    """Installs memlake when the program imports PyTorch, as the variable ``MEMLAKE_TORCH`` says.

    A mistake in the variable does not end the program: it is one line on stderr, and PyTorch keeps its own allocator.
    """
    if "torch" in sys.modules:
        _install_and_tell()
    else:
        sys.meta_path.insert(0, _TorchFinder())


def _install_and_tell() -> None:
    text = os.environ.get(VARIABLE, "")
    try:
        install_from_text(text)
    except MemlakeError as error:
        print(f"memlake: {VARIABLE}={text}: {error}. PyTorch keeps its own allocator.", file=sys.stderr)


class _TorchFinder(MetaPathFinder):
    """Finds PyTorch as Python would, and runs the installation when the import is complete."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.loader is not None:
            spec.loader = _TorchLoader(spec.loader)
        return spec


class _TorchLoader(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Others look at the loader of a module, so it gets its own one back.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _install_and_tell()
