"""The pool that serves a device of PyTorch's, as a `Pool`."""

from __future__ import annotations

from memlake import _native
from memlake.policies import resolve_policy
from memlake.pool.buffer import Buffer
from memlake.pool.object_state import ObjectState
from memlake.pool.pool import Pool

__all__ = ["pool_of_torch"]


def pool_of_torch(device: int) -> Pool | None:
    """Returns the pool that serves a device of PyTorch's; None if the device has no pool.

    A pool that the program made and gave to PyTorch is that same object. For a pool that C functions made, all calls
    return one object as long as it exists. It cannot be closed, because PyTorch goes on to use the pool; a dropped
    object leaves the pool as it is. So does an object that the program made and dropped: the next call makes another.

    Args:
        device: PyTorch's number of the device.

    Raises:
        ConfigError: if there cannot be such a device.
        DriverError: in a forked child of a process that has pools.
    """
    identity = _native.torch_pool_identity(device)
    if identity is None:
        return None
    pool = Pool._known.get(identity)
    return _make(device) if pool is None else pool


def _make(device: int) -> Pool | None:
    """Makes the object of a pool that has none: C functions made it, or the program dropped the object."""
    pool = Pool.__new__(Pool)
    try:
        _native.Pool.__init__(pool, device, Buffer)
    except KeyError:  # another thread has taken the pool away
        return None
    pool._complete(resolve_policy(pool._policy_text), ObjectState(is_borrowed=True))
    return Pool._known.setdefault(pool._identity, pool)
