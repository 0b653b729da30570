"""Devices: one GPU each, real or emulated, and how to find the real ones."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, ClassVar, Protocol
from uuid import UUID
from weakref import WeakSet, WeakValueDictionary

from memlake import _native
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

# Here, because whoever uses the core has a device.
undo_failures.install()

_CUDA_LIBRARY = "libcuda.so.1"

# Guards who is told of waits, on all devices: threads wait and make pools at the same time.
_telling = threading.Lock()

# Results of cuInit and cuDeviceGet that mean "there is nothing here" and not "something is broken".
_STUB_LIBRARY = 34
_NO_DEVICE = 100
_INVALID_DEVICE = 101


def devices(library: str | os.PathLike[str] | None = None) -> list[Device]:
    """The devices of the CUDA driver, in the order of their ordinals; ``[]`` without a driver or without a GPU.

    Args:
        library: the driver's file. None: the one the environment variable ``MEMLAKE_DRIVER`` names, else
            ``libcuda.so.1``.

    Raises:
        ConfigError: if a library that was asked for by name cannot be loaded; the message says what was tried.
        DriverError: if there is a driver but it does not start.
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
    """A pool that gives memory back when the program waits for a device."""

    def _release_above_threshold(self) -> None: ...


class Device(FactoryMade):
    """One GPU, real or emulated. Get them from `memlake.devices()` or `memlake.emulate()`.

    Two devices are equal if they have the same ordinal in the same driver library.
    """

    __slots__ = ("__weakref__", "_core", "_default_stream", "_key", "_name", "_told_of_waits", "_views")
    _made_by = "memlake.devices() or memlake.emulate()"

    # One object per device, so that what it knows (its live views) is known once.
    _known: ClassVar[WeakValueDictionary[tuple[str, int], Device]] = WeakValueDictionary()

    _core: _native.Device
    _key: tuple[str, int]
    _views: LiveViews
    _default_stream: Stream | None
    _told_of_waits: WeakSet[ToldOfWaits]
    _name: str | None  # kept, because messages show it and must not cost a driver call each

    @classmethod
    def _of(cls, native: _native.Device) -> Self:
        """The one object for this device."""
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
            # setdefault: another thread may have come first.
            device = Device._known.setdefault(key, device)
        return device  # type: ignore[return-value]  # an EmulatedDevice is registered before anyone asks for a Device

    @property
    def _open(self) -> _native.Device:
        """The native device, for calls that need it open."""
        if not self._core.is_open:
            raise ClosedError(f"{self!r} is closed")
        return self._core

    @property
    def ordinal(self) -> int:
        """Its number in its driver."""
        return self._core.ordinal

    @property
    def name(self) -> str:
        """What the driver calls it, for instance ``"NVIDIA A100-SXM4-80GB"``."""
        core = self._open
        if self._name is None:
            self._name = core.name()
        return self._name

    @property
    def uuid(self) -> str:
        """Its identity, the same in every process."""
        return str(UUID(bytes=self._open.uuid()))

    @property
    def total_memory(self) -> int:
        """Bytes of physical memory it has."""
        return self._open.total_memory()

    @property
    def free_memory(self) -> int:
        """Bytes of physical memory nobody holds at this moment, in any process."""
        return self._open.free_memory()

    @property
    def granularity(self) -> int:
        """The granule: sizes of chunks and places of mappings are multiples of it."""
        return self._open.granularity(False)

    @property
    def recommended_granularity(self) -> int:
        """The granule the driver recommends for speed; at least `granularity`."""
        return self._open.granularity(True)

    @property
    def peers(self) -> list[Device]:
        """The other devices whose memory this one can reach."""
        return [other for other in devices_of(self._open.driver) if other is not self and self.can_access(other)]

    @property
    def default_stream(self) -> Stream:
        """The stream that is meant when ``stream=None`` is given."""
        if self._default_stream is None:
            from memlake.device.stream import Stream

            self._default_stream = Stream._default_of(self)
        return self._default_stream

    @property
    def is_emulated(self) -> bool:
        """True if its driver is memlake's emulator."""
        return self._core.driver.is_emulated

    @property
    def is_host_backed(self) -> bool:
        """True if the CPU can touch its memory at the device's own addresses (emulated, ``backing="host"``)."""
        return self._open.is_host_backed

    def can_access(self, other: Device) -> bool:
        """True if work on this device can reach the memory of `other`, once access to it is granted."""
        peer = open_core(other)
        if other == self:
            return True
        return other._key[0] == self._key[0] and self._open.can_access(peer)

    def attribute(self, attribute: int) -> int:
        """The value of a ``CUdevice_attribute``, by its number in ``cuda.h``."""
        return self._open.attribute(attribute)

    def create_stream(self, *, nonblocking: bool = True, priority: int = 0) -> Stream:
        """Makes a stream.

        Args:
            nonblocking: False makes it wait for the default stream, and the default stream wait for it.
            priority: lower numbers come first; the driver limits it to what the device knows.
        """
        from memlake.device.stream import Stream

        return Stream._create(self, nonblocking, priority)

    def create_event(self, *, timing: bool = False) -> Event:
        """Makes an event.

        Args:
            timing: True to measure with it (``end - start``); events that only order work are cheaper.
        """
        from memlake.device.event import Event

        return Event._create(self, timing)

    def synchronize(self) -> None:
        """Waits until all work queued on this device is finished."""
        self._open.synchronize()
        self._was_waited_for()

    def _set_told_of_waits(self, pool: ToldOfWaits, is_told: bool) -> None:
        """Whether a pool of this device is told when the program has waited for something on it."""
        with _telling:
            if is_told:
                self._told_of_waits.add(pool)
            else:
                self._told_of_waits.discard(pool)

    def _was_waited_for(self) -> None:
        """The program has waited for something on this device: pools with a release threshold act now."""
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
        return f"{kind}(ordinal={self.ordinal}, name={self.name!r})"


def open_core(device: Device) -> _native.Device:
    """The core's object of an argument that must be an open device.

    Raises:
        ConfigError: if it is no device.
        ClosedError: if it is closed.
    """
    if not isinstance(device, Device):
        raise ConfigError(f"expected a memlake Device, got {type(device).__name__}")
    return device._open


def devices_of(driver: _native.Driver) -> Iterator[Device]:
    for ordinal in range(driver.device_count()):
        try:
            native = driver.device(ordinal)
        except DriverError as error:
            if error.code != _INVALID_DEVICE:
                raise
            continue  # an emulated device that was closed; its ordinal is never used again
        if native.is_open:
            yield Device._of(native)
