"""Emulated devices: GPUs of memlake's own driver, which exist only in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from memlake import _native
from memlake.device.device import Device, devices_of
from memlake.emulator.config import EmulatorConfig, Peers, Sizes
from memlake.emulator.driver_ledger import Ledger, ledger
from memlake.emulator.hardware import settings_of
from memlake.errors import ConfigError, InvalidFree
from memlake.libraries import emulator_library
from memlake.ownership.closable import Closable

if TYPE_CHECKING:
    from memlake.units import Size

__all__ = ["EmulatedDevice", "EmulatedDevices", "emulate", "emulated_devices"]


def emulate(
    devices: int | None = None,
    memory: Sizes = "8GiB",
    *,
    backing: str = "host",
    peers: Peers = "all",
    granularity: Sizes = "2MiB",
    recommended_granularity: Sizes | None = None,
    profile: str = "strict",
    relax: Sequence[str] = (),
    streams: str = "threads",
    aliasing: str | None = None,
    lacks: Sequence[str] | None = None,
    fabric: str | None = None,
    pool_segment: Size = "32MiB",
    driver_version: int | None = None,
    poison: bool = False,
    kernels: str = "refuse",
    name: str | None = None,
    hardware: str | None = None,
) -> EmulatedDevices:
    """Adds emulated GPUs to this process and returns them: ``a, b = memlake.emulate(devices=2)``.

    A process has one emulated driver. Each call adds devices with new ordinals to it. Devices of different calls cannot
    access each other's memory. Emulated memory takes host memory only where it is written.

    Args:
        devices: the number of devices. None: as many as the longest list of sizes has, or one.
        memory: the physical memory of each device: one size for all, or a list with one for each, such as
            ``["8GiB", "16GiB"]``.
        backing: ``"host"``: the bytes exist in host memory. ``"none"``: the emulator keeps only the bookkeeping, so a
            device may be larger than the memory of this machine.
        peers: which devices can access each other's memory: ``"all"``, ``"none"``, or a square matrix of booleans
            (row i: the devices whose memory device i can access).
        granularity: the allocation granularity, of all devices or a list.
        recommended_granularity: the recommended granularity, of all devices or a list. None: the same as `granularity`.
        profile: ``"strict"`` refuses calls on which real drivers differ or are undocumented. ``"nvidia"`` answers them
            as observed on NVIDIA's driver.
        relax: names of rules of the strict profile to relax; docs/reference/emulator.md lists them.
        streams: ``"threads"``: the emulator runs queued work in threads. ``"manual"``: a test runs it step by step
            (`memlake.emulator.step`).
        aliasing: how a chunk may be mapped. ``"none"``: once, and whole. ``"whole"``: several times, always whole.
            ``"prefix"``: several times, also its first part alone. None: as `hardware` says, else ``"prefix"``.
        lacks: names of what the devices do not have, as some real ones: ``"vmm"``, ``"rdma"``, ``"rdma_grant"``,
            ``"rdma_access"``, ``"export"``, ``"spanning_copies"``, ``"shared_bytes"``; docs/reference/emulator.md says
            what each means. None: as `hardware` says, else nothing.
        fabric: fabric handles: ``"none"``; ``"create"``: accepted at ``cuMemCreate``, but refused at the export;
            ``"works"``. None: as `hardware` says, else ``"none"``.
        pool_segment: the least memory that one of CUDA's memory pools takes from the device at a time.
        driver_version: the version that the driver reports. It has what drivers of that version have. None: as
            `hardware` says, else 13000.
        poison: True fills new memory with a pattern, so that a read before the first write is noticed.
        kernels: ``"refuse"``: a launch of a kernel is refused. ``"skip"``: it is checked and queued, but computes
            nothing. The emulator runs no kernels.
        name: the name of the devices.
        hardware: a machine with known settings of `aliasing`, `lacks`, `fabric` and `driver_version`: ``"usual"``,
            ``"no-alias"``, ``"whole"``, ``"prefix"``, ``"stale-alias"``, ``"no-rdma"``, ``"wsl2"``, ``"no-export"``,
            ``"split-copies"``, ``"old-driver"`` or ``"no-vmm"``. None: what the environment variable
            ``MEMLAKE_HARDWARE`` names, else ``"usual"``.

    Raises:
        ConfigError: if a setting is wrong. No device was added.
    """
    given = {"aliasing": aliasing, "lacks": lacks, "fabric": fabric, "driver_version": driver_version}
    chosen = dict(settings_of(hardware)) | {key: value for key, value in given.items() if value is not None}
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
        poison=poison,
        kernels=kernels,
        name=name,
        **chosen,
    )
    driver = _native.Driver.load(emulator_library())
    first, count = driver.add_devices(config.to_text())
    driver.initialize()
    return EmulatedDevices([EmulatedDevice._of(driver.device(first + index)) for index in range(count)])


def emulated_devices() -> list[Device]:
    """Lists the open emulated devices of this process by ordinal."""
    driver = _native.Driver.load(emulator_library())
    return list(devices_of(driver)) if driver.is_initialized else []


class EmulatedDevice(Closable, Device):
    """One emulated GPU. `memlake.emulate()` makes it."""

    __slots__ = ()

    @property
    def is_open(self) -> bool:
        """False after close()."""
        return self._core.is_open

    def ledger(self) -> Ledger:
        """Returns the part of the ledger that belongs to this device, as of now."""
        return ledger().of(self)

    def close(self) -> None:
        """Removes the device and everything on it, after its queued work has finished. Its ordinal is not reused.

        Raises:
            BufferError: while a NumPy view of its memory is alive. Nothing was changed.
            InvalidFree: if the device is already closed.
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
        """Closes the devices that are still open.

        Raises:
            BufferError: while a NumPy view of the memory of one of them is alive. No device was closed.
            InvalidFree: if all devices are already closed.
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
