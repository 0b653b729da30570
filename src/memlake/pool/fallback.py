"""The choices of a pool that depend on what its devices have: its policy and its handle type."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from memlake import _native
from memlake.policies import resolve_policy
from memlake.policies.registry import default_policy
from memlake.pool.arguments import require_capable

if TYPE_CHECKING:
    from memlake.device.device import Device
    from memlake.policies import Options
    from memlake.pool.arguments import HandleType

__all__ = ["chosen_policy", "usable_handle_type"]

# What was said about a device is not said again.
_said: set[tuple[str, int, str]] = set()


def chosen_policy(
    policy: str | Options | None,
    devices: tuple[Device, ...],
    *,
    placement: str,
    location: str,
    spill: str | None,
    handle_type: str | None,
) -> tuple[Options, str | None]:
    """Returns the policy of a pool, and why it is not the default one although the program chose none.

    Raises:
        ConfigError: if an argument is invalid, or needs a capability that the policy does not have.
    """
    chosen, reason = _policy_on(devices, policy)
    require_capable(
        chosen, devices, reason, placement=placement, location=location, spill=spill, handle_type=handle_type
    )
    return chosen, reason


def _policy_on(devices: tuple[Device, ...], policy: str | Options | None) -> tuple[Options, str | None]:
    if policy is not None:
        return resolve_policy(policy), None
    name = _native.default_policy_on([device._open for device in devices])
    if name == default_policy():
        return resolve_policy(name), None
    lacking = next(device for device in devices if not device.features["virtual_memory"].has)
    reason = (
        f"device {lacking.ordinal} has no virtual memory management ({lacking.features['virtual_memory'].reason}), so "
        f'the pool has the policy "{name}" over plain allocations instead of "{default_policy()}"'
    )
    _say(lacking, "virtual_memory", reason, stacklevel=5)
    return resolve_policy(name), reason


def usable_handle_type(handle_type: HandleType | None, devices: tuple[Device, ...]) -> HandleType | None:
    """Returns the handle type that a pool can have: ``"posix_fd"`` where there are no fabric handles."""
    if handle_type != "fabric":
        return handle_type
    for device in devices:
        feature = device.features["fabric_handles"]
        if not feature.has:
            reason = (
                f"device {device.ordinal} has no fabric handles ({feature.reason}), so the pool has the handle type "
                '"posix_fd", for processes of one machine'
            )
            _say(device, "fabric_handles", reason, stacklevel=4)
            return "posix_fd"
    return "fabric"


def _say(device: Device, feature: str, text: str, *, stacklevel: int) -> None:
    key = (*device._key, feature)
    if key not in _said:
        _said.add(key)
        warnings.warn(text, RuntimeWarning, stacklevel=stacklevel)
