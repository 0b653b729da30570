"""The devices beside its own that may reach a pool's memory: a live set."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, MutableSet
from typing import TYPE_CHECKING

from memlake.device.device import Device, open_core
from memlake.errors import ConfigError

if TYPE_CHECKING:
    from memlake.pool.pool import Pool

__all__ = ["PeerDevices"]

# Threads may change the peers of a pool at the same time; each change reads, then writes.
_changing = threading.Lock()


class PeerDevices(MutableSet[Device]):
    """`Pool.peer_accessible_by`: changing it changes the access to all memory of the pool, and of what comes.

    The pool's own devices reach it always; they are not in the set, and cannot be taken away.
    """

    __slots__ = ("_pool",)

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add(self, value: Device) -> None:
        """Lets a device reach the pool's memory, now and later.

        Raises:
            ConfigError: if it cannot, or the policy's memory has no access of its own.
        """
        with _changing:
            self._replace({*self._pool._peers, value})

    def discard(self, value: Device) -> None:
        """Takes the access away. Work of that device on the pool's memory must be finished."""
        if value in self._pool.devices:
            raise ConfigError(f"{value!r} has memory in the pool; its access cannot be taken away")
        with _changing:
            self._replace(self._pool._peers - {value})

    def clear(self) -> None:
        """Leaves the pool's memory to its own devices."""
        self.replace(())

    def replace(self, devices: Iterable[Device]) -> None:
        """Lets these devices reach the memory, and no others but the pool's own. All of it is changed, or nothing."""
        if not isinstance(devices, Iterable):
            raise ConfigError(f"peer_accessible_by is a set of devices, got {type(devices).__name__}")
        with _changing:
            self._replace(devices)

    def _replace(self, devices: Iterable[Device]) -> None:
        pool = self._pool
        peers = frozenset(devices) - {*pool.devices}
        for peer in peers - pool._peers:  # one that was closed since it was added may stay
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
        # What | & - ^ give is a set of its own, not another pool's access.
        return set(it)

    def __contains__(self, value: object) -> bool:
        return value in self._pool._peers

    def __iter__(self) -> Iterator[Device]:
        return iter(sorted(self._pool._peers, key=lambda peer: peer.ordinal))

    def __len__(self) -> int:
        return len(self._pool._peers)

    def __repr__(self) -> str:
        return f"PeerDevices({list(self)!r})"
