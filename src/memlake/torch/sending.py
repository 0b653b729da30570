"""Tensors of memlake's memory in ``torch.multiprocessing``: the shim sends them, and their receiver needs memlake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlake.errors import ConfigError
from memlake.torch.torch_build import import_torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

__all__ = ["rebuild_tensor", "tell_receivers"]

_BEGIN_OF_A_HANDLE = b"memlake"


def tell_receivers(torch: ModuleType) -> None:
    """Lets a process that gets a tensor of memlake's memory and does not use memlake raise an error that says so."""
    from multiprocessing.reduction import ForkingPickler

    reductions = torch.multiprocessing.reductions

    def reduce(tensor: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        rebuild, arguments = reductions.reduce_tensor(tensor)
        handles = (part for part in arguments if isinstance(part, bytes))
        if any(handle.startswith(_BEGIN_OF_A_HANDLE) for handle in handles):
            return rebuild_tensor, arguments
        return rebuild, arguments

    for kind in {*getattr(torch, "_tensor_classes", ()), torch.Tensor, torch.nn.parameter.Parameter}:
        ForkingPickler.register(kind, reduce)


def rebuild_tensor(*arguments: Any) -> Any:
    """Opens a tensor of memlake's memory that another process has sent.

    Raises:
        ConfigError: if memlake is not PyTorch's allocator in this process.
    """
    from memlake.torch.installing import installation

    installed = installation()
    if installed is None or installed.door != "shim":
        raise ConfigError(
            "another process has sent a tensor of memlake's memory, and only memlake can open it: call "
            "memlake.torch.install() in this process, too, before it receives the tensor"
        )
    return import_torch().multiprocessing.reductions.rebuild_cuda_tensor(*arguments)
