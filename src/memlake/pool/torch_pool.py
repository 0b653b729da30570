"""The pool that serves a device of PyTorch's, as a `Pool`."""

from __future__ import annotations

from memlake import _native
from memlake.device.device import Device
from memlake.policies import resolve_policy
from memlake.pool.arguments import high_mark, total_memory
from memlake.pool.attributes import NEVER_RELEASE
from memlake.pool.buffer import Buffer
from memlake.pool.pool import Pool

__all__ = ["pool_of_torch"]


def pool_of_torch(device: int) -> Pool | None:
    """Returns the pool that serves a device of PyTorch's; None if the device has no pool.

    A pool that the program made and gave to PyTorch is that same object. For a pool that C functions made, all calls
    return one object as long as it exists. It cannot be closed, because PyTorch goes on to use the pool; a dropped
    object leaves the pool as it is.

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
    if pool is None:
        pool = _make(device)
    if pool is not None and pool._serves_torch:
        # C functions may have changed them.
        pool._limit = pool._limits()[0]
        pool._peers = frozenset(Device._of(core) for core in pool._peer_devices())
    return pool


def _make(device: int) -> Pool | None:
    """Makes the object of a pool that C functions made."""
    pool = Pool.__new__(Pool)
    try:
        _native.Pool.__init__(pool, device, Buffer)
    except KeyError:  # another thread has taken the pool away
        return None
    pool._all = tuple(Device._of(core) for core in pool._devices)
    pool._on = pool._all[0]
    pool._policy = resolve_policy(pool._policy_text or "lake")
    pool._fallback_reason = None
    pool._location = "device"
    pool._total = total_memory(pool._all, "device")
    pool._decay = None
    pool._handle_type = None
    pool._max_size = None
    pool.on_failure = ()
    pool._high_mark, pool._high_callback = high_mark(None, pool._total)
    pool._recording = None
    pool._is_default = False
    pool._serves_torch = True
    pool._release_threshold = NEVER_RELEASE
    pool._is_made = True
    return Pool._known.setdefault(pool._identity, pool)
