"""What a pool says about the hardware under it: what its memory can be used for, and what it does without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlake.pool.arguments import GPU_DIRECT_RDMA

if TYPE_CHECKING:
    from memlake.device.device import Device
    from memlake.policies import Options
    from memlake.pool.object_state import ObjectState

__all__ = ["PoolHardware"]


class PoolHardware:
    """The part of `Pool` that depends on the features of its devices."""

    __slots__ = ()

    _all: tuple[Device, ...]
    _location: Any
    _policy: Options
    _state: ObjectState

    @property
    def fallback_reason(self) -> str | None:
        """Why the pool does not have the default policy, if it was made without a policy; None if it has."""
        return self._state.fallback_reason

    @property
    def rdma(self) -> bool:
        """True if memory that the pool creates now can be registered for GPUDirect RDMA; see `Piece.is_rdma_capable`.

        The feature ``"rdma"`` of a device (`Device.features`) has the reason if it cannot.
        """
        if self._location != "device":
            return False
        if self._policy.capabilities.virtual_memory:
            return all(bool(device.features["rdma"].has) for device in self._all)
        return all(device.attribute(GPU_DIRECT_RDMA) != 0 for device in self._all)

    def _notes(self) -> tuple[str, ...]:
        """Returns what the pool does without, each in one sentence."""
        refused = [
            f"device {device.ordinal} refused {name} in use {feature.refusals} times ({feature.reason}); without it "
            f"{feature.without}"
            for device in self._all
            for name, feature in device.features.refused().items()
        ]
        return tuple(refused if self.fallback_reason is None else [self.fallback_reason, *refused])
