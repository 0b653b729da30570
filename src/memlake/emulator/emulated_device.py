"""Emulated devices: GPUs that exist in this process only, on memlake's own driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from memlake import _native
from memlake.device.device import Device, devices_of
from memlake.emulator.config import EmulatorConfig, Peers
from memlake.emulator.driver_ledger import Ledger, ledger
from memlake.errors import ConfigError, InvalidFree
from memlake.libraries import emulator_library
from memlake.ownership.closable import Closable

if TYPE_CHECKING:
    from memlake.units import Size

__all__ = ["EmulatedDevice", "EmulatedDevices", "emulate", "emulated_devices"]


def emulate(
    devices: int = 1,
    memory: Size = "8GiB",
    *,
    backing: str = "host",
    peers: Peers = "all",
    granularity: Size = "2MiB",
    recommended_granularity: Size | None = None,
    profile: str = "strict",
    relax: Sequence[str] = (),
    streams: str = "threads",
    pool_segment: Size = "32MiB",
    driver_version: int | None = None,
    poison: bool = False,
    name: str | None = None,
) -> EmulatedDevices:
    """Adds emulated GPUs to this process and returns them: ``a, b = memlake.emulate(devices=2)``.

    Each call adds devices with fresh ordinals to the process's one emulated driver. Devices of different calls do not
    reach each other's memory. Memory that is never touched costs nothing.

    Args:
        devices: how many.
        memory: physical memory of each.
        backing: ``"host"``: bytes are real, in this machine's memory. ``"none"``: bookkeeping only, for devices larger
            than this machine.
        peers: who reaches whose memory: ``"all"``, ``"none"``, or a square matrix of booleans (row i: what device i
            reaches).
        granularity: the granule.
        recommended_granularity: the granule the driver recommends; None: the same.
        profile: ``"strict"`` refuses everything that is doubtful on real drivers; ``"nvidia"`` answers as observed.
        relax: names of single rules of the strict profile to relax; docs/reference/emulator.md lists them.
        streams: ``"threads"``: work runs by itself. ``"manual"``: a test runs it step by step
            (`memlake.emulator.step`).
        pool_segment: how much CUDA's memory pools on it take from the device at a time, at least.
        driver_version: what the driver answers when asked for its version; None: 13000.
        poison: True fills new memory with a pattern, so that reading it before writing shows.
        name: what the devices are called.

    Raises:
        ConfigError: if a setting is wrong; nothing was added.
    """
    config = EmulatorConfig(
        devices=devices,
        memory=memory,
        backing=backing,
        peers=peers,
        granularity=granularity,
        recommended_granularity=recommended_granularity,
        profile=profile,
        relax=relax,
        streams=streams,
        pool_segment=pool_segment,
        driver_version=driver_version,
        poison=poison,
        name=name,
    )
    driver = _native.Driver.load(emulator_library())
    first, count = driver.add_devices(config.to_text())
    driver.initialize()
    return EmulatedDevices([EmulatedDevice._of(driver.device(first + index)) for index in range(count)])


def emulated_devices() -> list[Device]:
    """All emulated devices of this process that are open, in the order of their ordinals."""
    driver = _native.Driver.load(emulator_library())
    return list(devices_of(driver)) if driver.is_initialized else []


class EmulatedDevice(Closable, Device):
    """One emulated GPU, from `memlake.emulate()`."""

    __slots__ = ()

    @property
    def is_open(self) -> bool:
        """False once it was closed."""
        return self._core.is_open

    def ledger(self) -> Ledger:
        """What exists on this device at this moment."""
        return ledger().of(self)

    def close(self) -> None:
        """Removes the device with everything that lives on it. Waits for its queued work; its ordinal is never reused.

        Raises:
            BufferError: while a NumPy view of its memory is alive; nothing was changed.
            InvalidFree: if it is closed already.
        """
        if not self.is_open:
            raise InvalidFree(f"{self!r} was closed before")
        self._views.refuse(f"close {self!r}")
        self._core.driver.close_devices(self.ordinal, 1)


class EmulatedDevices(Closable, Sequence[EmulatedDevice]):
    """The devices of one `emulate()` call: a sequence, and a context manager that closes them."""

    __slots__ = ("_devices",)

    def __init__(self, devices: Sequence[EmulatedDevice]) -> None:
        self._devices = tuple(devices)

    @overload
    def __getitem__(self, index: int) -> EmulatedDevice: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[EmulatedDevice]: ...
    def __getitem__(self, index: int | slice) -> EmulatedDevice | Sequence[EmulatedDevice]:
        return self._devices[index]

    def __len__(self) -> int:
        return len(self._devices)

    @property
    def is_open(self) -> bool:
        """True while at least one of the devices is open."""
        return any(device.is_open for device in self._devices)

    def close(self) -> None:
        """Closes those that are still open.

        Raises:
            BufferError: while a NumPy view of the memory of one of them is alive; none was closed.
            InvalidFree: if all are closed already.
        """
        still_open = [device for device in self._devices if device.is_open]
        if not still_open:
            raise InvalidFree("these devices were closed before")
        for device in still_open:
            device._views.refuse(f"close {device!r}")
        for device in still_open:
            device.close()

    def __repr__(self) -> str:
        return f"EmulatedDevices({list(self._devices)!r})"


def require_emulated(device: Device) -> None:
    """Raises ConfigError unless the device is emulated."""
    if not device.is_emulated:
        raise ConfigError(f"{device!r} is not emulated; this works only on the emulator")
