"""Buffers: a `Buffer` is memory that a pool has allocated."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from memlake import _native
from memlake.device.device import Device
from memlake.device.foreign_array import ON_DEVICE, ON_PINNED_HOST
from memlake.device.memory import Memory
from memlake.device.piece import Piece
from memlake.device.stream import Stream, StreamLike, stream_arguments
from memlake.errors import ClosedError, ConfigError
from memlake.logs import logger
from memlake.ownership.views import LiveViews
from memlake.pool.arguments import GPU_DIRECT_RDMA
from memlake.pool.handle import Handle, export_types_of
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Self

    from memlake.sharing import Share

__all__ = ["Buffer"]

_log = logger("pool")

_ON_CPU = (1, 0)  # DLPack's name of the CPU
_NO_ORDER = -1  # a consumer's word for: do not order me behind the buffer's stream
_LEGACY_STREAM = 1  # the protocols' name of the default stream; they do not allow 0


class Buffer(_native.Lease, Memory):
    """Memory of a pool: one contiguous range of device addresses, aligned to 512 bytes. `Pool.allocate` returns it.

    ::

        with pool.allocate("1GiB") as buffer:
            buffer.fill(0)
            buffer.ptr, buffer.nbytes

    A buffer is freed by `close`, at the end of a ``with`` block, or when its last reference is dropped. Until then it
    keeps the memory of its pool alive, but not the `Pool` object. A closed buffer keeps nothing.
    """

    __slots__ = ("__weakref__", "_live_views")

    _live_views: LiveViews

    @property
    def address(self) -> int:
        """The device address of the first byte; `ptr` by the name that all memory has."""
        return self.ptr

    @property
    def device(self) -> Device:
        """The device of the pool, or the first of several."""
        return Device._of(self._device)

    @property
    def stream(self) -> Stream:
        """The stream that the buffer was allocated for.

        Raises:
            ClosedError: if the buffer, the stream or its device is closed.
            ConfigError: if it is the per-thread default stream of another thread, which has no name in this one.
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
            device = None if core is None else Device._of(core)
            found.append(Piece(device, offset, nbytes)._with_rdma(self._has_rdma))
            offset += nbytes
        return tuple(found)

    @property
    def handles(self) -> tuple[Handle, ...]:
        """The handles under the buffer, by offset. Empty for memory without handles, such as plain allocations.

        The driver is asked at each call. A buffer that was allocated with ``single_handle=True`` has one.
        """
        return tuple(
            Handle(handle, offset, nbytes, start, export_types_of(types), is_rdma_capable)
            for handle, offset, nbytes, start, types, is_rdma_capable in self._handles()
        )

    def pin(self, *, registration: bool = False) -> None:
        """Keeps the memory as it is, also behind close(), until it is unpinned as often.

        For registrations with NCCL or RDMA, for sharing and graphs. A pinned buffer that is dropped is freed. Many
        transports refuse a range of several handles; the log ``memlake.pool`` says so. Allocate such a buffer with
        ``single_handle=True``.

        Args:
            registration: True if the memory will be registered for GPUDirect RDMA. The call then refuses memory for
                which the driver did not grant it.

        Raises:
            ConfigError: with `registration`, if GPUDirect RDMA was not granted for a part of the memory.
            ClosedError: if the buffer is closed.
        """
        self._require_open()
        if registration:
            self._require_rdma()
        if not self._is_one_handle():
            _log.warning(
                "%r is pinned and has several handles, and many transports refuse such a range or register its first "
                "handle only; allocate it with single_handle=True",
                self,
            )
        self._pin()

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

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns DLPack's name of the buffer's device: (2, ordinal), or (3, 0) if all of it is host memory.

        A buffer on several devices has the name of the first one.
        """
        ordinal = self._ordinal
        return (ON_PINNED_HOST, 0) if ordinal is None else (ON_DEVICE, ordinal)

    def _dlpack_slowly(
        self,
        stream: int | None,
        max_version: tuple[int, int] | None,
        dl_device: tuple[int, int] | None,
        copy: bool | None,
    ) -> object:
        """Serves a call of ``__dlpack__`` that the fast path in the core does not handle."""
        own = self.__dlpack_device__()
        is_versioned = max_version is not None and max_version[0] >= 1
        if copy:
            raise BufferError("memlake gives its own memory and no copy; ask for copy=None, and copy the tensor")
        if dl_device is not None and tuple(dl_device) not in (own, _ON_CPU):
            raise BufferError(f"the buffer lies on {own}, and memlake does not copy it to {tuple(dl_device)}")
        if dl_device == _ON_CPU or own[0] == ON_PINNED_HOST:
            if stream is None:
                self._wait_for_own_stream()
            else:
                self._order_before(stream)
            is_pinned = own[0] == ON_PINNED_HOST and dl_device != _ON_CPU
            is_read_only = self._host_rights() == "r"
            return _native.dlpack_of_view(self._view(), self.ptr, self.nbytes, is_read_only, is_pinned, is_versioned)
        self._order_before(_LEGACY_STREAM if stream is None else stream)
        return self._dlpack(own[1], is_versioned)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory as an array of bytes, by version 3 of the protocol of Numba and CuPy.

        The protocol does not tell the buffer when the other library is done, so keep the buffer open until then.
        """
        handle = self._queued_on()
        return {
            "version": 3,
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "strides": None,
            "data": (self.ptr, False),
            "stream": None if handle is None else handle or _LEGACY_STREAM,
        }

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The memory as an array of bytes, if the CPU can access it. NumPy uses Python's buffer protocol before this.

        Raises:
            AttributeError: if the CPU cannot access the memory.
        """
        try:
            return self._view().__array_interface__
        except ConfigError as error:
            raise AttributeError(str(error)) from None

    def _has_rdma(self, piece: Piece) -> bool:
        end = piece.offset + piece.nbytes
        handles = self.handles
        if handles:
            parts = [part for part in handles if part.offset < end and part.offset + part.nbytes > piece.offset]
            return piece.device is not None and all(part.is_rdma_capable for part in parts)
        # Plain allocations: the device tells for all of them.
        return piece.device is not None and piece.device.attribute(GPU_DIRECT_RDMA) != 0

    def _require_rdma(self) -> None:
        for piece in self.pieces:
            if piece.is_rdma_capable:
                continue
            if piece.device is None:
                reason = "it is memory of the host"
            else:
                feature = piece.device.features["rdma"]
                reason = feature.reason or "the memory was created before the device was asked for it"
            raise ConfigError(
                f"{self!r} cannot be registered for GPUDirect RDMA: for the {format_bytes(piece.nbytes)} at offset "
                f"{piece.offset} it was not granted ({reason}); pin it without registration=True, or copy through a "
                "buffer of the host"
            )

    def _queued_on(self) -> int | None:
        """Returns the handle of the stream that the buffer was allocated for, or None if all its work has finished."""
        try:
            return self._stream()[0]
        except (ClosedError, ConfigError):
            self._require_open()
            # No stream can wait for one that was destroyed, and this thread cannot name the per-thread default stream
            # of another thread. So the host waits for all work of the device.
            self.device.synchronize()
            return None

    def _wait_for_own_stream(self) -> None:
        if self._queued_on() is not None:
            self.stream.sync()

    def _order_before(self, consumer: object) -> None:
        """Makes a stream that DLPack names wait for the buffer's stream, and notes that it uses the buffer."""
        if consumer == _NO_ORDER:
            return
        if not isinstance(consumer, int) or consumer < _LEGACY_STREAM:
            raise ConfigError(f"DLPack names streams by -1, 1, 2 or a handle, got {consumer!r}")
        own = self._queued_on()
        handle = 0 if consumer == _LEGACY_STREAM else consumer
        if own == handle:
            return
        if own is not None:
            Stream.from_handle(handle, device=self.device).wait(self.stream)
        self.record_stream(handle)

    def _close_slowly(self, stream: StreamLike) -> None:
        """Serves a call of close() that the fast path in the core does not handle."""
        if self.is_open:
            self._views.refuse(f"close {self!r}")
            if self._num_exports:
                raise BufferError(
                    f"cannot close {self!r} while another library has its memory by DLPack; delete those arrays first"
                )
        if stream is None or not self.is_open:
            self._release()  # a closed buffer is refused, whichever stream is named
        else:
            self._release_on(stream, *stream_arguments(stream, self._all_devices()))

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

    def _boundaries(self) -> list[int]:
        return [piece.offset for piece in self.pieces[1:]]

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
