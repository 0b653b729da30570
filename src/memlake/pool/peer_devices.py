"""Peer devices: the set of other devices that can access the memory of a pool."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, MutableSet
from typing import TYPE_CHECKING

from memlake.device.device import Device, open_core
from memlake.errors import ConfigError

if TYPE_CHECKING:
    from memlake.pool.pool import Pool

__all__ = ["PeerDevices"]

# Threads may change the peers of a pool at the same time; each change reads the old set, then writes the new one.
_changing = threading.Lock()


class PeerDevices(MutableSet[Device]):
    """The value of `Pool.peer_accessible_by`. Changing the set changes the access to all present and future memory.

    The devices of the pool itself always have access. They are not in the set and cannot be removed.
    """

    __slots__ = ("_pool",)

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add(self, value: Device) -> None:
        """Grants a device access to the memory of the pool.

        Raises:
            ConfigError: if the device cannot access it, or the policy does not control access.
        """
        with _changing:
            self._replace({*self._pool._peers, value})

    def discard(self, value: Device) -> None:
        """Revokes the access of a device.

        This waits until the device and the devices of the pool have done the work that is queued now. No thread may
        queue work on the memory of the pool meanwhile.
        """
        if value in self._pool.devices:
            raise ConfigError(f"{value!r} has memory in the pool; its access cannot be taken away")
        with _changing:
            self._replace(self._pool._peers - {value})

    def clear(self) -> None:
        """Revokes the access of all other devices; it waits as `discard` does."""
        self.replace(())

    def replace(self, devices: Iterable[Device]) -> None:
        """Grants access to these devices and revokes it from all others. Changes all memory of the pool, or nothing."""
        if not isinstance(devices, Iterable):
            raise ConfigError(f"peer_accessible_by is a set of devices, got {type(devices).__name__}")
        with _changing:
            self._replace(devices)

    def _replace(self, devices: Iterable[Device]) -> None:
        pool = self._pool
        peers = frozenset(devices) - {*pool.devices}
        for peer in peers - pool._peers:  # a device that was closed after it was added may stay
            open_core(peer)
            for device in pool.devices:
                if not peer.can_access(device):
                    raise ConfigError(f"{peer!r} cannot reach the memory of {device!r}; see Device.peers")
        if peers == pool._peers:
            return
        still_there = [peer for peer in peers if peer._core.is_open]
        pool._set_peers([peer._core for peer in sorted(still_there, key=lambda peer: peer.ordinal)])
        pool._peers = peers

    @classmethod
    def _from_iterable(cls, it: Iterable[Device]) -> set[Device]:  # type: ignore[override]
        # The operators | & - ^ return plain sets; only the set of the pool changes access.
        return set(it)

    def __contains__(self, value: object) -> bool:
        return value in self._pool._peers

    def __iter__(self) -> Iterator[Device]:
        return iter(sorted(self._pool._peers, key=lambda peer: peer.ordinal))

    def __len__(self) -> int:
        return len(self._pool._peers)

    def __repr__(self) -> str:
        return f"PeerDevices({list(self)!r})"
