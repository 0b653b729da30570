"""Devices: a `Device` is one GPU, real or emulated. `devices` lists the real ones."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, ClassVar, Protocol
from uuid import UUID
from weakref import WeakSet, WeakValueDictionary

from memlake import _native
from memlake.device.features import Features
from memlake.errors import ClosedError, ConfigError, DriverError
from memlake.ownership import undo_failures
from memlake.ownership.factory_made import FactoryMade
from memlake.ownership.views import LiveViews

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    from memlake.device.event import Event
    from memlake.device.stream import Stream

__all__ = ["Device", "devices"]

# Every user of the core imports this module first.
undo_failures.install()

_CUDA_LIBRARY = "libcuda.so.1"

# Guards `_told_of_waits` of all devices: one thread may wait for a device while another makes a pool on it.
_telling = threading.Lock()

# Results of cuInit and cuDeviceGet that mean "no driver" or "no device". Other results are failures.
_STUB_LIBRARY = 34
_NO_DEVICE = 100
_INVALID_DEVICE = 101


def devices(library: str | os.PathLike[str] | None = None) -> list[Device]:
    """Lists the devices of the CUDA driver by ordinal. Without a driver or a GPU the list is empty.

    Args:
        library: the file of the driver. None: the file that the environment variable ``MEMLAKE_DRIVER`` names, else
            ``libcuda.so.1``.

    Raises:
        ConfigError: if the named library cannot be loaded; the message lists the paths that were tried.
        DriverError: if the driver was loaded but does not start.
    """
    chosen = os.fspath(library) if library is not None else os.environ.get("MEMLAKE_DRIVER", "")
    if library is not None and not chosen:
        raise ConfigError("library is empty; name the driver's file, or leave it out for libcuda.so.1")
    try:
        driver = _native.Driver.load(chosen or _CUDA_LIBRARY)
    except ConfigError:
        if chosen:
            raise
        return []
    try:
        driver.initialize()
    except DriverError as error:
        if error.code in (_NO_DEVICE, _STUB_LIBRARY):
            return []
        raise
    return list(devices_of(driver))


class ToldOfWaits(Protocol):
    """A pool that releases memory when the program waits for a device."""

    def _release_above_threshold(self) -> None: ...


class Device(FactoryMade):
    """One GPU, real or emulated. `memlake.devices()` and `memlake.emulate()` return them.

    Two devices are equal if they have the same ordinal in the same driver library.
    """

    __slots__ = ("__weakref__", "_core", "_default_stream", "_key", "_name", "_told_of_waits", "_views")
    _made_by = "memlake.devices() or memlake.emulate()"

    # There is one object per device, so that its live views are counted once.
    _known: ClassVar[WeakValueDictionary[tuple[str, int], Device]] = WeakValueDictionary()

    _core: _native.Device
    _key: tuple[str, int]
    _views: LiveViews
    _default_stream: Stream | None
    _told_of_waits: WeakSet[ToldOfWaits]
    _name: str | None  # cached, because error messages show it and must not make a driver call

    @classmethod
    def _of(cls, native: _native.Device) -> Self:
        """Returns the one `Device` object for a native device."""
        key = (native.driver.library, native.ordinal)
        device = Device._known.get(key)
        if device is None:
            device = object.__new__(cls)
            device._core = native
            device._key = key
            device._views = LiveViews()
            device._default_stream = None
            device._told_of_waits = WeakSet()
            device._name = None
            # setdefault, because another thread may have added the object first.
            device = Device._known.setdefault(key, device)
        return device  # type: ignore[return-value]  # an EmulatedDevice is registered before anyone asks for a Device

    @property
    def _open(self) -> _native.Device:
        """The native device. Raises ClosedError if the device is closed."""
        if not self._core.is_open:
            raise ClosedError(f"{self!r} is closed")
        return self._core

    @property
    def ordinal(self) -> int:
        """The number of the device in its driver."""
        return self._core.ordinal

    @property
    def name(self) -> str:
        """The name that the driver gives, for instance ``"NVIDIA A100-SXM4-80GB"``."""
        core = self._open
        if self._name is None:
            self._name = core.name()
        return self._name

    @property
    def uuid(self) -> str:
        """The UUID of the device. It is the same in every process."""
        return str(UUID(bytes=self._open.uuid()))

    @property
    def total_memory(self) -> int:
        """The physical memory of the device in bytes."""
        return self._open.total_memory()

    @property
    def free_memory(self) -> int:
        """The physical memory in bytes that no process uses at this moment."""
        return self._open.free_memory()

    @property
    def granularity(self) -> int:
        """The allocation granularity in bytes. Chunk sizes and mapping offsets are multiples of it."""
        return self._open.granularity(False)

    @property
    def recommended_granularity(self) -> int:
        """The granularity in bytes that the driver recommends for speed. It is at least `granularity`."""
        return self._open.granularity(True)

    @property
    def peers(self) -> list[Device]:
        """The other devices whose memory this device can access."""
        return [other for other in devices_of(self._open.driver) if other is not self and self.can_access(other)]

    @property
    def default_stream(self) -> Stream:
        """The default stream of the device. ``stream=None`` means this stream."""
        if self._default_stream is None:
            from memlake.device.stream import Stream

            self._default_stream = Stream._default_of(self)
        return self._default_stream

    @property
    def is_emulated(self) -> bool:
        """True if the driver of this device is memlake's emulator."""
        return self._core.driver.is_emulated

    @property
    def is_host_backed(self) -> bool:
        """True if the CPU can access the memory at its device addresses (emulated with ``backing="host"``)."""
        return self._open.is_host_backed

    @property
    def features(self) -> Features:
        """What the device and its driver can do, by name; see `memlake.device.features.Features`."""
        return Features(self)

    def can_access(self, other: Device) -> bool:
        """Returns True if this device can access memory of `other`, once that access is granted."""
        peer = open_core(other)
        if other == self:
            return True
        return other._key[0] == self._key[0] and self._open.can_access(peer)

    def attribute(self, attribute: int) -> int:
        """Returns the value of a ``CUdevice_attribute``, given its number in ``cuda.h``."""
        return self._open.attribute(attribute)

    def create_stream(self, *, nonblocking: bool = True, priority: int = 0) -> Stream:
        """Creates a stream on this device.

        Args:
            nonblocking: False orders the stream with the default stream: each waits for the other's earlier work.
            priority: lower numbers run first. The driver clamps the number to the range of the device.
        """
        from memlake.device.stream import Stream

        return Stream._create(self, nonblocking, priority)

    def create_event(self, *, timing: bool = False) -> Event:
        """Creates an event on this device.

        Args:
            timing: True if the event shall measure time (``end - start``). An event without timing is cheaper.
        """
        from memlake.device.event import Event

        return Event._create(self, timing)

    def synchronize(self) -> None:
        """Blocks until all work queued on this device has finished."""
        self._open.synchronize()
        self._was_waited_for()

    def _set_told_of_waits(self, pool: ToldOfWaits, is_told: bool) -> None:
        """Adds a pool to, or removes it from, the pools that this device notifies after a wait."""
        with _telling:
            if is_told:
                self._told_of_waits.add(pool)
            else:
                self._told_of_waits.discard(pool)

    def _was_waited_for(self) -> None:
        """Notifies pools with a release threshold that the program has waited for work of this device."""
        if self._told_of_waits:
            with _telling:
                pools = tuple(self._told_of_waits)
            for pool in pools:
                pool._release_above_threshold()

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Device) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        kind = type(self).__name__
        if not self._core.is_open:
            return f"{kind}(ordinal={self.ordinal}, closed)"
        try:
            return f"{kind}(ordinal={self.ordinal}, name={self.name!r})"
        except (ClosedError, DriverError):  # a forked child cannot ask the driver
            return f"{kind}(ordinal={self.ordinal})"


def open_core(device: Device) -> _native.Device:
    """Returns the native object of an argument that must be an open device.

    Raises:
        ConfigError: if the argument is not a `Device`.
        ClosedError: if the device is closed.
    """
    if not isinstance(device, Device):
        raise ConfigError(f"expected a memlake Device, got {type(device).__name__}")
    return device._open


def devices_of(driver: _native.Driver) -> Iterator[Device]:
    """Yields the open devices of a driver, by ordinal."""
    for ordinal in range(driver.device_count()):
        try:
            native = driver.device(ordinal)
        except DriverError as error:
            if error.code != _INVALID_DEVICE:
                raise
            continue  # the emulated device with this ordinal was closed; ordinals are never reused
        if native.is_open:
            yield Device._of(native)
