"""Peer devices: the set of other devices that can access the memory of a pool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet
from typing import TYPE_CHECKING

from memlake.device.device import Device, open_core
from memlake.errors import ConfigError

if TYPE_CHECKING:
    from memlake.pool.pool import Pool

__all__ = ["PeerDevices"]


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
        self._require_reachable({value})
        self._pool._add_peer(value._core)

    def discard(self, value: Device) -> None:
        """Revokes the access of a device.

        This waits until the device and the devices of the pool have done the work that is queued now. No thread may
        queue work on the memory of the pool meanwhile.
        """
        if value in self._pool.devices:
            raise ConfigError(f"{value!r} has memory in the pool; its access cannot be taken away")
        if value in self:
            self._pool._remove_peer(value._core)

    def clear(self) -> None:
        """Revokes the access of all other devices; it waits as `discard` does."""
        self.replace(())

    def replace(self, devices: Iterable[Device]) -> None:
        """Grants access to these devices and revokes it from all others. Changes all memory of the pool, or nothing."""
        if not isinstance(devices, Iterable):
            raise ConfigError(f"peer_accessible_by is a set of devices, got {type(devices).__name__}")
        wanted = frozenset(devices) - {*self._pool.devices}
        present = self._present()
        self._require_reachable(wanted - present)
        if wanted != present:
            self._pool._set_peers([peer._core for peer in sorted(wanted, key=lambda peer: peer.ordinal)])

    def _require_reachable(self, peers: Iterable[Device]) -> None:
        for peer in peers:
            open_core(peer)
            for device in self._pool.devices:
                if not peer.can_access(device):
                    raise ConfigError(f"{peer!r} cannot reach the memory of {device!r}; see Device.peers")

    def _present(self) -> frozenset[Device]:
        # The core knows them: C functions may change them, too. A device that was closed is not one of them.
        return frozenset(Device._of(core) for core in self._pool._peer_devices())

    @classmethod
    def _from_iterable(cls, it: Iterable[Device]) -> set[Device]:  # type: ignore[override]
        # The operators | & - ^ return plain sets; only the set of the pool changes access.
        return set(it)

    def __contains__(self, value: object) -> bool:
        return value in self._present()

    def __iter__(self) -> Iterator[Device]:
        return iter(sorted(self._present(), key=lambda peer: peer.ordinal))

    def __len__(self) -> int:
        return len(self._present())

    def __repr__(self) -> str:
        return f"PeerDevices({list(self)!r})"
