"""Streams: a `Stream` runs the work of a device in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from memlake import _native
from memlake.device.event import Event
from memlake.errors import ClosedError, ConfigError, InvalidFree
from memlake.ownership.closable import Closable
from memlake.ownership.factory_made import FactoryMade

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from memlake.device.device import Device

__all__ = ["Stream", "StreamLike", "SupportsCudaStream", "foreign_handle", "resolve_stream", "stream_arguments"]

_DEFAULT = 0  # CUDA's handle for the default stream of the current context
_LEGACY = 1  # another name of the same stream
_LARGEST_HANDLE = 2**64 - 1


@runtime_checkable
class SupportsCudaStream(Protocol):
    """An object of another library that has a CUDA stream (cuda.core, CuPy, PyTorch, Numba, ...)."""

    def __cuda_stream__(self) -> tuple[int, int]:
        """Returns (0, handle): the version of the protocol and the ``CUstream``."""
        ...


class Stream(Closable, FactoryMade):
    """A CUDA stream of one device. `Device.create_stream` creates one; `from_handle` wraps one of another library.

    Every ``stream=`` argument of memlake takes a `Stream`, any object with ``__cuda_stream__``, or the raw handle as an
    int. Dropping the last reference destroys a stream that memlake created; its queued work still runs.
    """

    __slots__ = ("__weakref__", "_device", "_handle", "_is_open", "_owner")
    _made_by = "device.create_stream() or Stream.from_handle()"

    _device: Device
    _handle: int
    _owner: _native.StreamOwner | None  # None: a stream that memlake did not create and does not destroy
    _is_open: bool

    @classmethod
    def _make(cls, device: Device, handle: int, owner: _native.StreamOwner | None) -> Self:
        stream = object.__new__(cls)
        stream._device = device
        stream._handle = handle
        stream._owner = owner
        stream._is_open = True
        return stream

    @classmethod
    def _create(cls, device: Device, nonblocking: bool, priority: int) -> Self:
        owner = _native.StreamOwner(device._open, nonblocking, priority)
        return cls._make(device, owner.handle, owner)

    @classmethod
    def _default_of(cls, device: Device) -> Self:
        return cls._make(device, _DEFAULT, None)

    @classmethod
    def from_handle(cls, handle: int | SupportsCudaStream, *, device: Device) -> Self:
        """Wraps a stream of another library. Its owner must keep it alive while memlake uses it.

        Args:
            handle: the ``CUstream`` as an int, or an object with ``__cuda_stream__``.
            device: the device of the stream.
        """
        return cls._make(device, foreign_handle(handle), None)

    @property
    def handle(self) -> int:
        """The ``CUstream`` as an int."""
        self._open_device()
        return self._handle

    @property
    def device(self) -> Device:
        """The device of the stream."""
        return self._device

    @property
    def is_open(self) -> bool:
        """False after close()."""
        return self._is_open

    @property
    def is_done(self) -> bool:
        """True if all work queued so far has finished. This does not wait."""
        return self._open_device().stream_is_done(self._handle)

    def sync(self) -> None:
        """Blocks until all work queued so far has finished."""
        self._open_device().stream_synchronize(self._handle)
        self._device._was_waited_for()

    def record(self, event: Event | None = None) -> Event:
        """Records an event: it is done when all work queued so far has finished.

        Args:
            event: the event to record. None: a new event without timing.
        """
        core = self._open_device()
        if event is None:
            event = self._device.create_event()
        core.event_record(event.handle, self._handle)
        return event

    def wait(self, other: Event | StreamLike) -> None:
        """Makes later work of this stream wait for an event, or for the work that another stream has queued so far.

        The device waits; the calling thread does not.
        """
        core = self._open_device()
        if isinstance(other, Event):
            core.stream_wait(self._handle, other.handle)
            return
        if other is None:
            raise ConfigError("nothing to wait for: give an Event or a stream")
        source = other if isinstance(other, Stream) else Stream.from_handle(other, device=self._device)
        # Destroying an event whose wait is queued is legal: the driver keeps it until the wait is over.
        with source.record() as event:
            core.stream_wait(self._handle, event.handle)

    def close(self) -> None:
        """Destroys the stream; its queued work still runs. A stream of another library is not destroyed.

        Raises:
            InvalidFree: if the stream is already closed, or is the default stream of a device.
        """
        if not self._is_open:
            raise InvalidFree(f"{self!r} was closed before")
        if self._is_default:
            raise InvalidFree(f"{self!r} is the device's default stream and cannot be closed")
        if self._owner is not None:
            self._owner.close()
        self._is_open = False
        _native.forget_stream_objects()

    def __cuda_stream__(self) -> tuple[int, int]:
        """Returns (0, handle), the protocol through which other libraries take a stream."""
        return (0, self.handle)

    def _end_block(self, error: BaseException | None) -> None:
        # A device's default stream cannot be closed.
        if self._is_open and not self._is_default:
            self.close()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return self._device == other._device and self._handle == other._handle

    def __hash__(self) -> int:
        return hash((self._device, self._handle))

    def __repr__(self) -> str:
        if not self._is_open:
            return f"Stream(device={self._device.ordinal}, closed)"
        which = "default" if self._handle == _DEFAULT else f"handle={self._handle:#x}"
        return f"Stream(device={self._device.ordinal}, {which})"

    @property
    def _is_default(self) -> bool:
        return self._owner is None and self._handle == _DEFAULT

    def _open_device(self) -> _native.Device:
        if not self._is_open:
            raise ClosedError(f"{self!r} is closed")
        return self._device._open


StreamLike = Stream | SupportsCudaStream | int | None
"""The type of every ``stream=`` argument."""


def resolve_stream(stream: StreamLike, device: Device) -> Stream:
    """Returns the stream that a ``stream=`` argument names. Every such argument is read here.

    Args:
        stream: None for the default stream of the device, a `Stream`, an object with ``__cuda_stream__``, or a handle.
        device: the device of the work. A handle of another library is taken as a stream of this device.

    Raises:
        ConfigError: if the argument is none of these, or is a stream of another driver.
    """
    if stream is None:
        return device.default_stream
    if not isinstance(stream, Stream):
        return Stream.from_handle(stream, device=device)
    if stream.device._core.driver.library != device._core.driver.library:
        raise ConfigError(f"{stream!r} belongs to another driver than {device!r}")
    return stream


def stream_arguments(stream: StreamLike, devices: Sequence[Device]) -> tuple[int, _native.StreamOwner | None, int]:
    """Returns a stream in the form that the pools of the core take.

    Args:
        stream: see `resolve_stream`. None: the default stream of the first device.
        devices: the devices of the pool.

    Returns:
        The handle, the owner (None if memlake did not create the stream), and the index of its device in `devices`.

    Raises:
        ConfigError: if the stream belongs to a device that is not in `devices`.
        ClosedError: if the stream or its device is closed.
    """
    target = resolve_stream(stream, devices[0])
    target._open_device()
    if target._owner is None and target._handle > _LEGACY:
        return target._handle, None, 0  # of another library: the core asks the driver for its device
    for number, device in enumerate(devices):
        if target.device == device:
            return target._handle, target._owner, number
    raise ConfigError(f"{target!r} is a stream of another device than {devices[0]!r}, where the memory is")


def foreign_handle(stream: object) -> int:
    """Returns the handle of another library's stream: of an object with ``__cuda_stream__``, or an int."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        handle: object = stream
    elif isinstance(stream, SupportsCudaStream):
        answer = stream.__cuda_stream__()
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise ConfigError(f"__cuda_stream__ of {stream!r} must answer (version, handle), it answered {answer!r}")
        version, handle = answer
        if version != 0:
            raise ConfigError(f"__cuda_stream__ of {stream!r} has version {version!r}; memlake knows version 0")
    else:
        raise ConfigError(
            "stream must be None, a memlake Stream, an object with __cuda_stream__, or a handle as an int; "
            f"got {type(stream).__name__}"
        )
    if not isinstance(handle, int) or not 0 <= handle <= _LARGEST_HANDLE:
        raise ConfigError(f"{handle!r} is not a stream handle")
    return handle
