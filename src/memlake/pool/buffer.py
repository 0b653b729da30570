"""Buffers: a `Buffer` is memory that a pool has allocated."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from memlake import _native
from memlake.device.device import Device
from memlake.device.memory import Memory
from memlake.device.piece import Piece
from memlake.device.stream import Stream, StreamLike, stream_arguments
from memlake.errors import ClosedError
from memlake.ownership.views import LiveViews
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Self

    from memlake.sharing import Share

__all__ = ["Buffer"]


class Buffer(_native.Lease, Memory):
    """Memory of a pool: one contiguous range of device addresses, aligned to 512 bytes. `Pool.allocate` returns it.

    ::

        with pool.allocate("1GiB") as buffer:
            buffer.fill(0)
            buffer.ptr, buffer.nbytes

    A buffer is freed by `close`, at the end of a ``with`` block, or when its last reference is dropped. It keeps the
    memory of its pool alive, but not the `Pool` object.
    """

    __slots__ = ("__weakref__", "_live_views")

    _live_views: LiveViews

    @property
    def address(self) -> int:
        """Same as `ptr`."""
        return self.ptr

    @property
    def device(self) -> Device:
        """The device of the pool, or the first of several."""
        return Device._of(self._device)

    @property
    def stream(self) -> Stream:
        """The stream that the buffer was allocated for.

        Raises:
            ClosedError: if the stream or its device is closed.
        """
        handle, core = self._stream()
        device = Device._of(core)
        return device.default_stream if handle == 0 else Stream.from_handle(handle, device=device)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces of the buffer by offset. Adjacent memory on one device is one piece."""
        found = []
        offset = 0
        for core, nbytes in self._pieces():
            found.append(Piece(None if core is None else Device._of(core), offset, nbytes))
            offset += nbytes
        return tuple(found)

    def record_stream(self, stream: StreamLike) -> None:
        """Tells the pool that queued work of another stream uses the buffer.

        After the free, the pool reuses the memory only when that work has finished. Call this after the work was queued
        and before the buffer is freed, as with PyTorch's ``Tensor.record_stream``.

        Raises:
            ClosedError: if the buffer is closed.
            ConfigError: if the stream does not belong to a device of the pool.
        """
        self._require_open()
        self._record_use(*stream_arguments(stream, self._all_devices()))

    def export(self) -> Share:
        """Exports the memory, so that other processes can open it. A buffer can be exported more than once.

        The pool does not reuse exported memory. After the buffer is closed and the streams that use it have finished,
        the pool releases the memory; processes that opened the share keep it. Another process must not read before the
        work that writes the memory has finished, so synchronise first.

        Raises:
            ConfigError: if the buffer is not shareable or is empty.
            ClosedError: if the buffer is closed.
        """
        from memlake.sharing.share import export_buffer

        return export_buffer(self)

    def numpy(self, dtype: DTypeLike = "uint8") -> NDArray[Any]:
        """Returns a NumPy array over the memory itself, without a copy. The CPU must be able to access the memory.

        While the array or a slice of it is alive, closing the buffer or its device raises BufferError.

        Args:
            dtype: the type of the elements. `nbytes` must be a multiple of its size.

        Raises:
            ConfigError: if the CPU cannot access the memory, or `dtype` does not fit.
        """
        if self.nbytes == 0:
            import numpy as np

            self._require_open()
            return np.empty(0, dtype)
        return super().numpy(dtype)

    def _close_slowly(self, stream: StreamLike) -> None:
        """Serves a call of close() that the fast path in the core does not handle."""
        if self.is_open:
            self._views.refuse(f"close {self!r}")
        if stream is None:
            self._release()
        else:
            self._release_on(*stream_arguments(stream, self._all_devices()))

    @property
    def _views(self) -> LiveViews:
        # Created with the first view: most buffers never have one.
        try:
            return self._live_views
        except AttributeError:
            self._live_views = LiveViews()
            self._watch()
            return self._live_views

    def _require_open(self) -> None:
        if not self.is_open:
            raise ClosedError(f"{self!r} is closed")

    @contextmanager
    def _driver_calls(self) -> Iterator[None]:
        self._require_open()
        yield

    def _viewed_devices(self) -> set[Device]:
        # Host memory is mapped for all devices of the pool, and closing one of them closes the pool.
        touched = self._touched_devices()
        return set(self._all_devices()) if any(piece.device is None for piece in self.pieces) else touched

    def _touched_devices(self) -> set[Device]:
        return {piece.device for piece in self.pieces if piece.device is not None}

    def _all_devices(self) -> list[Device]:
        return [Device._of(core) for core in self._devices]

    def _host_rights(self) -> str:
        return "rw"

    def __enter__(self) -> Self:
        self._require_open()
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Buffer is memory of this process; it can be neither copied nor pickled")

    def __repr__(self) -> str:
        if not self.is_open:
            return f"Buffer({format_bytes(self.nbytes)}, closed)"
        return f"Buffer({format_bytes(self.nbytes)} at {self.ptr:#x})"
