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

__all__ = ["chosen_policy", "usable_handle_type", "warn_once"]

# By the library of the driver and the text, which names the device.
_said: set[tuple[str, str]] = set()


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
    return resolve_policy(name), reason


def usable_handle_type(
    handle_type: HandleType | None, devices: tuple[Device, ...]
) -> tuple[HandleType | None, str | None]:
    """Returns the handle type that a pool can have, and why it is not the one that was asked for.

    It is ``"posix_fd"`` where there are no fabric handles, and None where memory cannot be exported at all.
    """
    if handle_type not in ("posix_fd", "fabric"):
        return handle_type, None
    without = _device_without("file_descriptors", devices)
    if without is not None:
        return None, f"{without}, so the pool has no handle type, and export() is refused"
    without = _device_without("fabric_handles", devices) if handle_type == "fabric" else None
    if without is not None:
        return "posix_fd", f'{without}, so the pool has the handle type "posix_fd", for processes of one machine'
    return handle_type, None


_LACKS = {
    "file_descriptors": "cannot hand memory to other processes",
    "fabric_handles": "has no fabric handles",
}


def _device_without(name: str, devices: tuple[Device, ...]) -> str | None:
    """Names the first device without the feature, and the reason; None if all have it."""
    for device in devices:
        feature = device.features[name]
        if not feature.has:
            return f"device {device.ordinal} {_LACKS[name]} ({feature.reason})"
    return None


def warn_once(devices: tuple[Device, ...], *reasons: str | None) -> None:
    """Warns of each reason that was not told before. To be called by the initialiser of a pool that exists now."""
    for reason in filter(None, reasons):
        key = (devices[0]._key[0], reason)
        if key not in _said:
            _said.add(key)
            warnings.warn(reason, RuntimeWarning, stacklevel=3)
