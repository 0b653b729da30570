"""The device that an argument names, and the current device of the calling thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.device.device import Device, devices, devices_of
from memlake.device.stream import StreamLike, foreign_handle
from memlake.emulator.emulated_device import emulated_devices
from memlake.errors import ConfigError

if TYPE_CHECKING:
    from memlake import _native

__all__ = ["chosen_device", "current_device", "device_of_stream", "driver_in_use"]


def driver_in_use() -> _native.Driver | None:
    """Returns the driver whose current device counts: CUDA's, else the emulated driver; None if there is no device."""
    found = devices() or emulated_devices()
    return found[0]._core.driver if found else None


def current_device() -> Device:
    """Returns the current device of the calling thread, as CUDA has it; the first device if no context is current.

    Raises:
        ConfigError: if there is no device.
    """
    driver = driver_in_use()
    if driver is None:
        raise ConfigError("there is no device: no CUDA driver was found, and memlake.emulate() was not called")
    ordinal = driver.current_device()
    return next(devices_of(driver)) if ordinal is None else Device._of(driver.device(ordinal))


def device_of_stream(stream: StreamLike) -> Device | None:
    """Returns the device of another library's stream; None for a default stream, which says nothing about its device.

    Raises:
        ConfigError: if it is no stream of the driver.
    """
    handle = foreign_handle(stream)
    driver = driver_in_use() if handle > 2 else None
    ordinal = None if driver is None else driver.stream_device(handle)
    return None if driver is None or ordinal is None else Device._of(driver.device(ordinal))


def chosen_device(argument: object) -> Device:
    """Returns the device that an argument names.

    Args:
        argument: a `Device`, its ordinal, or an object with ``device_id`` such as a ``cuda.core.Device``. Ordinals are
            those of the CUDA driver; without a GPU, those of the emulated devices.

    Raises:
        ConfigError: if the argument is none of these, or there is no such device.
    """
    if isinstance(argument, Device):
        return argument
    ordinal = getattr(argument, "device_id", argument)
    if not isinstance(ordinal, int) or isinstance(ordinal, bool):
        raise ConfigError(
            f"expected a memlake Device, an ordinal or a cuda.core Device, got {type(argument).__name__}; "
            "see memlake.devices()"
        )
    found = {device.ordinal: device for device in devices() or emulated_devices()}
    if ordinal not in found:
        raise ConfigError(f"there is no device {ordinal}; known: {sorted(found) or 'none'}")
    return found[ordinal]
