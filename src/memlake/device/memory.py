"""Bytes at a device address: fill them, copy them, look at them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from memlake.device.host_buffer import HostBuffer, HostBufferLike
from memlake.device.stream import StreamLike, resolve_stream
from memlake.errors import ConfigError
from memlake.ownership.closable import Closable
from memlake.ownership.views import LiveViews, MemoryView
from memlake.units import Size, format_bytes, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from numpy.typing import DTypeLike, NDArray

    from memlake import _native
    from memlake.device.device import Device

__all__ = ["Memory"]


class Memory(Closable):
    """A range of device addresses with memory behind it.

    Work goes to the stream that is given and returns at once; without one it goes to the device's default stream and is
    finished when the call returns.
    """

    # No slots, and abstract methods without an abstract base class: a native class, too, derives from it (Buffer), and
    # brings its own layout and metaclass.
    __slots__ = ()

    @property
    @abstractmethod
    def address(self) -> int:
        """The first address."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """How many bytes there are."""

    @property
    @abstractmethod
    def device(self) -> Device:
        """The device whose memory it is, or begins with; its default stream is used when none is given."""

    @property
    @abstractmethod
    def _views(self) -> LiveViews:
        """The NumPy views of it that are alive."""

    @abstractmethod
    def _driver_calls(self) -> AbstractContextManager[None]:
        """Surrounds calls to the driver; raises ClosedError if the memory is gone."""

    @abstractmethod
    def _viewed_devices(self) -> set[Device]:
        """The devices whose memory a view shows: they cannot be closed under it."""

    def _touched_devices(self) -> set[Device]:
        """The devices whose own memory the CPU touches through a view."""
        return self._viewed_devices()

    @abstractmethod
    def _host_rights(self) -> str:
        """What the CPU may do: ``"rw"``, ``"r"`` or ``"none"``."""

    def fill(self, value: int, *, offset: Size = 0, nbytes: Size | None = None, stream: StreamLike = None) -> None:
        """Sets every byte to `value`.

        Args:
            value: 0 to 255.
            offset: where to begin.
            nbytes: how many bytes; None: to the end.
            stream: see `Memory`.
        """
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 255:
            raise ConfigError(f"the value of a byte is an int from 0 to 255, got {value!r}")
        start, count = self._part(offset, nbytes)
        self._queue(stream, lambda core, handle: core.fill(start, value, count, handle))

    def copy_from(self, source: Memory | HostBufferLike, *, offset: Size = 0, stream: StreamLike = None) -> None:
        """Copies all of `source` to here.

        Args:
            source: other device memory, or a contiguous host buffer: a NumPy array, bytes, a memoryview, ...
                Ordinary host memory is read before the call returns; page-locked memory must stay as it is until the
                work is finished.
            offset: where in this memory to begin.
            stream: see `Memory`.
        """
        if isinstance(source, Memory):
            start, count = self._part(offset, source.nbytes)
            with source._driver_calls():
                self._queue(stream, lambda core, handle: core.copy(start, source.address, count, handle))
        else:
            host = HostBuffer(source)
            start, count = self._part(offset, host.nbytes)
            self._queue(stream, lambda core, handle: core.copy_from_host(start, host.address, count, handle))

    def copy_to(self, destination: Memory | HostBufferLike, *, offset: Size = 0, stream: StreamLike = None) -> None:
        """Fills all of `destination` from here.

        Args:
            destination: other device memory, or a contiguous, writable host buffer. A copy to ordinary host memory
                returns when the bytes are there, also on a stream; page-locked memory must stay until the work is
                finished.
            offset: where in this memory to begin.
            stream: see `Memory`.
        """
        if isinstance(destination, Memory):
            start, count = self._part(offset, destination.nbytes)
            with destination._driver_calls():
                self._queue(stream, lambda core, handle: core.copy(destination.address, start, count, handle))
        else:
            host = HostBuffer(destination, is_written=True)
            start, count = self._part(offset, host.nbytes)
            self._queue(stream, lambda core, handle: core.copy_to_host(host.address, start, count, handle))

    def numpy(self, dtype: DTypeLike = "uint8") -> NDArray[Any]:
        """The memory itself as a NumPy array: no copy. Only where the CPU can touch it.

        The array and all its slices keep the memory: closing, unmapping, splitting or merging it, lowering access to
        it, or closing its device raises BufferError until they are gone. It is read-only if no device may write here.

        Args:
            dtype: the type of the elements; `nbytes` must be a multiple of its size.

        Raises:
            ConfigError: if the CPU cannot touch the memory, or the type does not fit.
        """
        import numpy as np

        element = np.dtype(dtype)
        with self._driver_calls():
            self._require_host_access()
            if element.hasobject or element.itemsize == 0 or self.nbytes % element.itemsize:
                raise ConfigError(f"{self.nbytes} bytes cannot be seen as elements of {element!r}")
            view = MemoryView(self, self.address, self.nbytes, is_read_only=self._host_rights() == "r")
        self._views.add(view)
        for device in self._viewed_devices():
            device._views.add(view)
        return np.asarray(view).view(element)

    def _require_host_access(self) -> None:
        for device in self._touched_devices():
            if not device.is_host_backed:
                raise ConfigError(
                    f"the CPU cannot touch the memory of {device!r}; copy it with copy_to(array), or use an emulated "
                    'device with backing="host"'
                )
        if self._host_rights() == "none":
            raise ConfigError(
                f"no device has access to all of {self!r}; grant it first, with set_access(devices, 'rw')"
            )

    def _queue(self, stream: StreamLike, work: Callable[[_native.Device, int], None]) -> None:
        """Gives work to a stream, and waits for it if the caller named none."""
        with self._driver_calls():
            target = resolve_stream(stream, self.device)
            work(target._open_device(), target._handle)
            if stream is None:
                target.sync()

    def _part(self, offset: Size, nbytes: Size | None) -> tuple[int, int]:
        """First address and size of a part of this memory; raises ConfigError if it is not inside."""
        start = parse_bytes(offset, what="offset")
        count = max(self.nbytes - start, 0) if nbytes is None else parse_bytes(nbytes, what="nbytes")
        if start + count > self.nbytes:
            raise ConfigError(
                f"{format_bytes(count)} at offset {start} do not fit into the {format_bytes(self.nbytes)} of {self!r}"
            )
        return self.address + start, count
