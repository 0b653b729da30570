"""Buffers: what a pool gives."""

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
    """Memory of a pool, one contiguous range of device addresses, aligned to 512 bytes. `Pool.allocate` gives it.

    ::

        with pool.allocate("1GiB") as buffer:
            buffer.fill(0)
            buffer.ptr, buffer.nbytes

    It is freed when it is closed, when a ``with`` block ends, or when it is dropped. It keeps its pool's memory alive,
    but not the `Pool` object.
    """

    __slots__ = ("__weakref__", "_live_views")

    _live_views: LiveViews

    @property
    def address(self) -> int:
        """The same as `ptr`."""
        return self.ptr

    @property
    def device(self) -> Device:
        """The device whose memory it is, or the first of several."""
        return Device._of(self._device)

    @property
    def stream(self) -> Stream:
        """The stream that it was allocated for.

        Raises:
            ClosedError: if that stream, or the device, was closed.
        """
        handle, core = self._stream()
        device = Device._of(core)
        return device.default_stream if handle == 0 else Stream.from_handle(handle, device=device)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Where its bytes lie: parts in order of their offset; neighbours on one device are one piece."""
        found = []
        offset = 0
        for core, nbytes in self._pieces():
            found.append(Piece(None if core is None else Device._of(core), offset, nbytes))
            offset += nbytes
        return tuple(found)

    def record_stream(self, stream: StreamLike) -> None:
        """Says that work on another stream uses the buffer: after its free it is reused when that stream has passed.

        Call it after the work was queued and before the buffer is freed, as with PyTorch's ``Tensor.record_stream``.

        Raises:
            ClosedError: if the buffer is closed.
            ConfigError: if it is no stream of the buffer's device.
        """
        self._require_open()
        self._record_use(*stream_arguments(stream, self._all_devices()))

    def export(self) -> Share:
        """Makes its memory something that can be given to other processes. It can be exported more than once.

        From now on its memory does not go back into the pool: when the buffer is closed and the streams that use it
        have passed, it is released, and whoever was given it keeps it. The other process must not read before the work
        that writes is finished: synchronise first.

        Raises:
            ConfigError: if it was not allocated to be shared, or is empty.
            ClosedError: if it is closed.
        """
        from memlake.sharing.share import export_buffer

        return export_buffer(self)

    def numpy(self, dtype: DTypeLike = "uint8") -> NDArray[Any]:
        """The memory itself as a NumPy array: no copy. Only where the CPU can touch it.

        The array and all its slices keep the buffer: closing it, or its device, raises BufferError until they are gone.

        Args:
            dtype: the type of the elements; `nbytes` must be a multiple of its size.

        Raises:
            ConfigError: if the CPU cannot touch the memory, or the type does not fit.
        """
        if self.nbytes == 0:
            import numpy as np

            self._require_open()
            return np.empty(0, dtype)
        return super().numpy(dtype)

    def _close_slowly(self, stream: StreamLike) -> None:
        """close() where something must be asked first."""
        if self.is_open:
            self._views.refuse(f"close {self!r}")
        if stream is None:
            self._release()
        else:
            self._release_on(*stream_arguments(stream, self._all_devices()))

    @property
    def _views(self) -> LiveViews:
        # Made at the first view: most buffers never have one.
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
        # Memory of the host is mapped for all devices of the pool, and closing one of them ends the pool.
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
