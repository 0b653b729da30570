"""Memory at device addresses: `Memory` is the base of buffers, segments and mappings."""

from __future__ import annotations

from abc import abstractmethod
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from memlake import _native
from memlake.device.features import log_refusals
from memlake.device.foreign_array import ForeignArray
from memlake.device.host_buffer import HostBuffer, HostBufferLike
from memlake.device.stream import StreamLike, resolve_stream
from memlake.errors import ConfigError, DriverError
from memlake.ownership.closable import Closable
from memlake.ownership.views import LiveViews, MemoryView
from memlake.units import Size, format_bytes, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from numpy.typing import DTypeLike, NDArray

    from memlake.device.device import Device

__all__ = ["Memory"]

_SPANNING = "spanning_copies"
_REFUSALS = (1, 801)  # CUDA_ERROR_INVALID_VALUE and CUDA_ERROR_NOT_SUPPORTED


class Memory(Closable):
    """A range of device addresses that is backed by memory.

    With a stream, `fill` and the copies queue their work there and return at once. Without a stream, they use the
    default stream of the device and wait for it.
    """

    # No slots, and abstract methods without an abstract base class: Buffer derives from this class and from a native
    # class, which has a layout and a metaclass of its own.
    __slots__ = ()

    @property
    @abstractmethod
    def address(self) -> int:
        """The first address."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The size in bytes."""

    @property
    @abstractmethod
    def device(self) -> Device:
        """The device of the first byte. Its default stream is used when no stream is given."""

    @property
    @abstractmethod
    def _views(self) -> LiveViews:
        """The NumPy views of this memory that are alive."""

    @abstractmethod
    def _driver_calls(self) -> AbstractContextManager[None]:
        """A context for driver calls. Raises ClosedError if the memory is closed."""

    @abstractmethod
    def _viewed_devices(self) -> set[Device]:
        """The devices that must stay open while a view of this memory is alive."""

    def _touched_devices(self) -> set[Device]:
        """The devices whose own memory the CPU accesses through a view."""
        return self._viewed_devices()

    @abstractmethod
    def _host_rights(self) -> str:
        """The access of the CPU: ``"rw"``, ``"r"`` or ``"none"``."""

    def fill(self, value: int, *, offset: Size = 0, nbytes: Size | None = None, stream: StreamLike = None) -> None:
        """Sets bytes to `value`.

        Args:
            value: 0 to 255.
            offset: the first byte to set.
            nbytes: the number of bytes. None: all bytes up to the end.
            stream: see `Memory`.
        """
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 255:
            raise ConfigError(f"the value of a byte is an int from 0 to 255, got {value!r}")
        start, count = self._part(offset, nbytes)
        self._queue_parts(
            stream, start, count, lambda core, handle, at, size: core.fill(start + at, value, size, handle)
        )

    def copy_from(self, source: Memory | HostBufferLike, *, offset: Size = 0, stream: StreamLike = None) -> None:
        """Copies all bytes of `source` into this memory.

        Args:
            source: other device memory, a compact array that speaks DLPack or ``__cuda_array_interface__`` (PyTorch,
                CuPy, Numba, cuda.core, ...), or a contiguous host buffer: a NumPy array, bytes, a memoryview, ...
                Pageable host memory is read before the call returns. Other memory must stay alive, and must not
                change, until the copy has finished.
            offset: the first byte of this memory to write.
            stream: see `Memory`.
        """
        if isinstance(source, Memory):
            start, count = self._part(offset, source.nbytes)
            with source._driver_calls():
                self._queue_parts(
                    stream,
                    start,
                    count,
                    lambda core, handle, at, size: core.copy(start + at, source.address + at, size, handle),
                    other=source._places(source.address, count),
                )
        elif ForeignArray.is_one(source):
            with self._driver_calls(), ForeignArray(source, resolve_stream(stream, self.device)) as array:
                start, count = self._part(offset, array.nbytes)
                self._queue_parts(
                    stream,
                    start,
                    count,
                    lambda core, handle, at, size: (core.copy_from_host if array.is_on_host else core.copy)(
                        start + at, array.address + at, size, handle
                    ),
                )
        else:
            host = HostBuffer(source)
            start, count = self._part(offset, host.nbytes)
            self._queue_parts(
                stream,
                start,
                count,
                lambda core, handle, at, size: core.copy_from_host(start + at, host.address + at, size, handle),
            )

    def copy_to(self, destination: Memory | HostBufferLike, *, offset: Size = 0, stream: StreamLike = None) -> None:
        """Copies bytes of this memory until `destination` is full.

        Args:
            destination: other device memory, a compact array of another library (see `copy_from`), or a contiguous,
                writable host buffer. A copy to pageable host memory has finished when the call returns, also with a
                stream. Other memory must stay alive until the copy has finished.
            offset: the first byte of this memory to read.
            stream: see `Memory`.
        """
        if isinstance(destination, Memory):
            start, count = self._part(offset, destination.nbytes)
            with destination._driver_calls():
                self._queue_parts(
                    stream,
                    start,
                    count,
                    lambda core, handle, at, size: core.copy(destination.address + at, start + at, size, handle),
                    other=destination._places(destination.address, count),
                )
        elif ForeignArray.is_one(destination):
            target = resolve_stream(stream, self.device)
            with self._driver_calls(), ForeignArray(destination, target, is_written=True) as array:
                start, count = self._part(offset, array.nbytes)
                self._queue_parts(
                    stream,
                    start,
                    count,
                    lambda core, handle, at, size: (core.copy_to_host if array.is_on_host else core.copy)(
                        array.address + at, start + at, size, handle
                    ),
                )
        else:
            host = HostBuffer(destination, is_written=True)
            start, count = self._part(offset, host.nbytes)
            self._queue_parts(
                stream,
                start,
                count,
                lambda core, handle, at, size: core.copy_to_host(host.address + at, start + at, size, handle),
            )

    def numpy(self, dtype: DTypeLike = "uint8") -> NDArray[Any]:
        """Returns a NumPy array over the memory itself, without a copy. The CPU must be able to access the memory.

        While the array or a slice of it is alive, closing, unmapping, splitting or merging the memory, lowering its
        access rights, or closing its device raises BufferError. The array is read-only if no device may write.

        Args:
            dtype: the type of the elements. `nbytes` must be a multiple of its size.

        Raises:
            ConfigError: if the CPU cannot access the memory, or `dtype` does not fit.
        """
        import numpy as np

        element = np.dtype(dtype)
        if element.hasobject or element.itemsize == 0 or self.nbytes % element.itemsize:
            with self._driver_calls():
                raise ConfigError(f"{self.nbytes} bytes cannot be seen as elements of {element!r}")
        return np.asarray(self._view()).view(element)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Returns `numpy()`, for ``numpy.asarray``.

        Raises:
            ConfigError: if the CPU cannot access the memory.
        """
        import numpy as np

        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ConfigError(f"bytes become {np.dtype(dtype)} only by a copy; memory.numpy(dtype) is a view")
            return array.astype(dtype)
        return array.copy() if copy else array

    def _view(self) -> MemoryView:
        """Returns the bytes for the CPU. While the view is alive, the memory and its devices cannot be closed."""
        with self._driver_calls():
            self._require_host_access()
            view = MemoryView(self, self.address, self.nbytes, is_read_only=self._host_rights() == "r")
        self._views.add(view)
        for device in self._viewed_devices():
            device._views.add(view)
        return view

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

    def _boundaries(self) -> list[int]:
        """Returns the offsets at which memory of another device, or of the host, begins."""
        return []

    def _places(self, start: int, count: int) -> list[int]:
        """Returns the boundaries inside a part of this memory, relative to the first address of the part."""
        offset = start - self.address
        return [edge - offset for edge in self._boundaries() if 0 < edge - offset < count]

    def _queue_parts(
        self,
        stream: StreamLike,
        start: int,
        count: int,
        work: Callable[[_native.Device, int, int, int], None],
        *,
        other: list[int] | None = None,
    ) -> None:
        """Queues a copy or a fill, in one call of the driver, or split by place where the device needs that.

        Args:
            stream: see `Memory`.
            start: the first address.
            count: the number of bytes.
            work: called with the device, the stream and the part: its offset from `start` and its size.
            other: the boundaries of the memory on the other side of a copy.
        """
        edges = sorted({*self._places(start, count), *(other or ())})

        def split(core: _native.Device, handle: int) -> None:
            for begin, end in pairwise([0, *edges, count]):
                work(core, handle, begin, end - begin)

        def whole(core: _native.Device, handle: int) -> None:
            if edges and _native.ask_feature(core, _SPANNING)["has"] is False:
                split(core, handle)
                return
            try:
                work(core, handle, 0, count)
            except DriverError as error:
                if not edges or error.code not in _REFUSALS:
                    raise
                split(core, handle)  # if this fails, too, the place of the memory was not the reason
                _native.turn_off_feature(core, _SPANNING, str(error))
                log_refusals()

        self._queue(stream, whole)

    def _queue(self, stream: StreamLike, work: Callable[[_native.Device, int], None]) -> None:
        """Queues work on a stream. Waits for the stream if the caller gave none."""
        with self._driver_calls():
            target = resolve_stream(stream, self.device)
            work(target._open_device(), target._handle)
            if stream is None:
                target.sync()

    def _part(self, offset: Size, nbytes: Size | None) -> tuple[int, int]:
        """Returns address and size of a part of this memory. Raises ConfigError if the part is not inside."""
        start = parse_bytes(offset, what="offset")
        count = max(self.nbytes - start, 0) if nbytes is None else parse_bytes(nbytes, what="nbytes")
        if start + count > self.nbytes:
            raise ConfigError(
                f"{format_bytes(count)} at offset {start} do not fit into the {format_bytes(self.nbytes)} of {self!r}"
            )
        return self.address + start, count
