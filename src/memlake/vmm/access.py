"""Who may read and write at a mapped address: in words here, in flags at the driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, get_args

from memlake.device import Device, devices_of
from memlake.errors import ConfigError

if TYPE_CHECKING:
    from memlake import _native

__all__ = [
    "Devices",
    "Rights",
    "device_list",
    "flags_at",
    "flags_of",
    "possible_users",
    "rights_of",
    "rights_of_anybody",
    "same_driver",
]

Rights = Literal["rw", "r", "none"]
"""Read and write, read only, or no access."""

Devices = Device | Iterable[Device]
"""One device or several."""

# CU_MEM_ACCESS_FLAGS_PROT_*
_FLAGS: dict[str, int] = {"none": 0, "r": 1, "rw": 3}
_RIGHTS: dict[int, Rights] = {_FLAGS[rights]: rights for rights in get_args(Rights)}


def flags_of(rights: str) -> int:
    """The driver's flags for a word."""
    try:
        return _FLAGS[rights]
    except (KeyError, TypeError):
        raise ConfigError(f'rights must be "rw", "r" or "none", got {rights!r}') from None


def rights_of(flags: int) -> Rights:
    """The word for the driver's flags."""
    return _RIGHTS[flags]


def device_list(devices: Devices) -> list[Device]:
    """The devices as a list; raises ConfigError if one is no device."""
    found = [devices] if isinstance(devices, Device) else list(devices)
    for device in found:
        if not isinstance(device, Device):
            raise ConfigError(f"expected a memlake Device, got {device!r} of type {type(device).__name__}")
    return found


def same_driver(device: Device, others: Iterable[Device]) -> list[_native.Device]:
    """The core's objects of `others`; raises ConfigError if one belongs to another driver than `device`."""
    library = device._core.driver.library
    cores = []
    for other in others:
        if other._core.driver.library != library:
            raise ConfigError(
                f"{other!r} belongs to another driver than {device!r}; memory cannot be shared between them"
            )
        cores.append(other._open)
    return cores


def flags_at(address: int, device: Device, users: Iterable[Device]) -> dict[Device, int]:
    """Which of `users` have access at an address of memory of `device`, and what they may do."""
    core = device._open
    answers = {user: core.get_access(address, user._open) for user in users}
    return {user: flags for user, flags in answers.items() if flags}


def possible_users(device: Device) -> list[Device]:
    """The devices that could have access to memory of `device`: itself, and all that can reach it."""
    return [other for other in devices_of(device._open.driver) if other.can_access(device)]


def rights_of_anybody(places: Iterable[tuple[int, Device]]) -> Rights:
    """What at least one device may do at each of the places (address, whose memory): the CPU may do the same."""
    users: dict[Device, list[Device]] = {}
    least = flags_of("rw")
    for address, device in places:
        if device not in users:
            users[device] = possible_users(device)
        anybody = 0
        for flags in flags_at(address, device, users[device]).values():
            anybody |= flags
        least &= anybody
    return rights_of(least)
