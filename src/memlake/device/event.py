"""Events: an `Event` marks a point in the work of a stream, to wait for it or to measure time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake import _native
from memlake.errors import ClosedError, ConfigError, InvalidFree
from memlake.ownership.closable import Closable
from memlake.ownership.factory_made import FactoryMade

if TYPE_CHECKING:
    from typing_extensions import Self

    from memlake.device.device import Device

__all__ = ["Event"]


class Event(Closable, FactoryMade):
    """A point in the work of a stream. `Stream.record` and `Device.create_event` create one.

    An event that was never recorded counts as done. ``end - start`` is the time between two events in milliseconds, if
    both were created with ``timing=True``.
    """

    __slots__ = ("__weakref__", "_device", "_is_open", "_is_timed", "_owner")
    _made_by = "stream.record() or device.create_event()"

    _device: Device
    _owner: _native.EventOwner
    _is_timed: bool
    _is_open: bool

    @classmethod
    def _create(cls, device: Device, timing: bool) -> Self:
        event = object.__new__(cls)
        event._device = device
        event._owner = _native.EventOwner(device._open, timing)
        event._is_timed = timing
        event._is_open = True
        return event

    @property
    def handle(self) -> int:
        """The ``CUevent`` as an int."""
        self._open_device()
        return self._owner.handle

    @property
    def device(self) -> Device:
        """The device whose streams can record the event."""
        return self._device

    @property
    def is_timed(self) -> bool:
        """True if the event was created with ``timing=True``."""
        return self._is_timed

    @property
    def is_open(self) -> bool:
        """False after close()."""
        return self._is_open

    @property
    def is_done(self) -> bool:
        """True if the work before the recorded point has finished. This does not wait."""
        return self._open_device().event_is_done(self._owner.handle)

    def sync(self) -> None:
        """Blocks until the work before the recorded point has finished."""
        self._open_device().event_synchronize(self._owner.handle)
        self._device._was_waited_for()

    def close(self) -> None:
        """Destroys the event. Streams that already wait for it still do.

        Raises:
            InvalidFree: if the event is already closed.
        """
        if not self._is_open:
            raise InvalidFree(f"{self!r} was closed before")
        self._owner.close()
        self._is_open = False

    def __sub__(self, start: Event) -> float:
        """Returns the milliseconds from `start` to this event. Both events must be done."""
        if not isinstance(start, Event):
            return NotImplemented
        for event in (self, start):
            if not event._is_timed:
                raise ConfigError(f"{event!r} does not measure time; make it with device.create_event(timing=True)")
        return self._open_device().event_elapsed_ms(start.handle, self._owner.handle)

    def __repr__(self) -> str:
        state = f"handle={self._owner.handle:#x}" if self._is_open else "closed"
        return f"Event(device={self._device.ordinal}, {state})"

    def _open_device(self) -> _native.Device:
        if not self._is_open:
            raise ClosedError(f"{self!r} is closed")
        return self._device._open
