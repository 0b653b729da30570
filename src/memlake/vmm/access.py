"""Access rights at mapped addresses: words such as ``"rw"``, and the flags of the driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, get_args

from memlake.device.device import Device
from memlake.errors import ConfigError

if TYPE_CHECKING:
    from memlake import _native

__all__ = [
    "Devices",
    "Rights",
    "device_list",
    "flags_at",
    "flags_of",
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
    """Returns the driver's flags for a word."""
    try:
        return _FLAGS[rights]
    except (KeyError, TypeError):
        raise ConfigError(f'rights must be "rw", "r" or "none", got {rights!r}') from None


def rights_of(flags: int) -> Rights:
    """Returns the word for the driver's flags."""
    return _RIGHTS[flags]


def device_list(devices: Devices) -> list[Device]:
    """Returns the devices as a list. Raises ConfigError if an element is not a `Device`."""
    found = [devices] if isinstance(devices, Device) else list(devices)
    for device in found:
        if not isinstance(device, Device):
            raise ConfigError(f"expected a memlake Device, got {device!r} of type {type(device).__name__}")
    return found


def same_driver(device: Device, others: Iterable[Device]) -> list[_native.Device]:
    """Returns the native objects of `others`. Raises ConfigError if one belongs to another driver than `device`."""
    library = device._core.driver.library
    cores = []
    for other in others:
        if other._core.driver.library != library:
            raise ConfigError(
                f"{other!r} belongs to another driver than {device!r}; memory cannot be shared between them"
            )
        cores.append(other._open)
    return cores


def flags_at(address: int, users: Iterable[Device]) -> dict[Device, int]:
    """Returns the access flags at a mapped address of those `users` that have any. A closed device has none."""
    answers = {user: user._core.get_access(address, user._core) for user in users if user._core.is_open}
    return {user: flags for user, flags in answers.items() if flags}


def rights_of_anybody(addresses: Iterable[int], users: Iterable[Device]) -> Rights:
    """Returns the rights that at least one of `users` has at every address. The CPU gets the same rights."""
    candidates = list(users)
    least = flags_of("rw")
    for address in addresses:
        anybody = 0
        for flags in flags_at(address, candidates).values():
            anybody |= flags
        least &= anybody
    return rights_of(least)
