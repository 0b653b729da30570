"""`pool`: the live pool behind a device of PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.errors import ConfigError
from memlake.pool.torch_pool import pool_of_torch
from memlake.torch.installing import installation
from memlake.torch.torch_build import import_torch

if TYPE_CHECKING:
    from memlake.pool import Pool

__all__ = ["pool", "pools"]

_MOST_DEVICES = 64


def pool(device: int | None = None) -> Pool:
    """Returns the pool that serves a device of PyTorch: its statistics, limit, recording and snapshot are live.

    Args:
        device: PyTorch's index of the device. None: the current device.

    Raises:
        ConfigError: if memlake is not installed, or if the device has had no tensor yet.
    """
    if installation() is None:
        raise ConfigError("memlake is not PyTorch's allocator here; call memlake.torch.install() first")
    index = import_torch().cuda.current_device() if device is None else device
    found = pool_of_torch(index)
    if found is None:
        raise ConfigError(f"device {index} has no pool yet: PyTorch's first tensor there makes it")
    return found


def pools() -> dict[int, Pool]:
    """Returns the pools of all devices that have one, by PyTorch's index."""
    found = {device: pool_of_torch(device) for device in range(_MOST_DEVICES)}
    return {device: pool for device, pool in found.items() if pool is not None}
