"""Shares: the right to open a buffer's memory, as something that travels to another process."""

from __future__ import annotations

import os
import socket
import weakref
from multiprocessing import context, reduction
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

from memlake import _native
from memlake.device.device import Device
from memlake.errors import ClosedError, ConfigError, InvalidFree
from memlake.ownership.closable import Closable
from memlake.ownership.factory_made import FactoryMade
from memlake.sharing.layout import Layout, layout_of
from memlake.sharing.shared_buffer import SharedBuffer, open_share
from memlake.sharing.transport import close_all, receive_share, send_share
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

__all__ = ["Share", "export_buffer", "export_pool", "receive"]


class Share(Closable, FactoryMade):
    """The memory of one buffer, as another process may be given it. `Buffer.export` and `receive` make it.

    It holds a file descriptor of each chunk. Only who is given them reaches the memory, and they keep it alive: after
    the buffer was closed, and after its process has ended. Close the share when it was sent or opened.

    It travels with `send` over a Unix socket, and through `multiprocessing`: as an argument of a process that is
    started with ``spawn``, through a queue or a connection. Each time it arrives as a share of its own.
    """

    __slots__ = ("__weakref__", "_descriptors", "_is_open", "_layout")
    _made_by = "buffer.export() or memlake.sharing.receive()"

    _layout: Layout
    _descriptors: tuple[int, ...]
    _is_open: bool

    @classmethod
    def _make(cls, layout: Layout, descriptors: Sequence[int]) -> Self:
        share = object.__new__(cls)
        share._layout = layout
        share._descriptors = tuple(descriptors)
        share._is_open = True
        return share

    @property
    def nbytes(self) -> int:
        """How large the buffer is."""
        return self._layout.nbytes

    @property
    def address(self) -> int:
        """Where the buffer lies in the process that exported it: `Buffer.ptr` there."""
        return self._layout.address

    @property
    def chunk_sizes(self) -> tuple[int, ...]:
        """The size of each chunk, in order. The last one may end behind the buffer."""
        return tuple(nbytes for nbytes, _ in self._layout.chunks())

    @property
    def device_uuids(self) -> tuple[str, ...]:
        """The devices that the chunks lie on."""
        return tuple(str(UUID(bytes=uuid)) for uuid in self._layout.uuids)

    @property
    def is_open(self) -> bool:
        """False after close()."""
        return self._is_open

    def open(self, device: Device | Sequence[Device] | None = None, *, read_only: bool = False) -> SharedBuffer:
        """Opens the memory in this process: one contiguous range that shows the exporter's own bytes.

        The buffer does not need the share any more, nor the process that exported it.

        Args:
            device: who uses it: a device, or several of one driver. None: the devices that it lies on, which this
                process must have.
            read_only: True to let nobody write through this buffer. A guard against mistakes: whoever has the share may
                open it again.

        Raises:
            ClosedError: if the share is closed.
            ConfigError: if this process does not have the devices, or a descriptor is no memory of theirs.
            DriverError: as the driver answers.
        """
        self._require_open()
        return open_share(self._layout, self._descriptors, device, read_only=read_only)

    def send(self, over: socket.socket) -> None:
        """Sends it to the other end of a connected Unix socket, where `receive` is waiting. It stays open here.

        Raises:
            ClosedError: if it is closed.
            ConfigError: if it is no Unix socket.
            OSError: as the socket answers.
        """
        self._require_open()
        send_share(over, self._layout, self._descriptors)

    def close(self) -> None:
        """Closes its descriptors. Buffers that were opened from it stay.

        Raises:
            InvalidFree: if it was closed before.
        """
        if not self._is_open:
            raise InvalidFree(f"{self!r} was closed before")
        self._is_open = False
        close_all(self._descriptors)

    def _require_open(self) -> None:
        if not self._is_open:
            raise ClosedError(f"{self!r} is closed")

    def __enter__(self) -> Self:
        self._require_open()
        return self

    def __del__(self) -> None:
        if getattr(self, "_is_open", False):
            self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Share has file descriptors, which only multiprocessing can send (process arguments with spawn, queues, "
            "connections); over other ways use share.send(socket)"
        )

    def __repr__(self) -> str:
        chunks = self._layout.chunk_count
        what = f"{format_bytes(self.nbytes)} in {chunks} {'chunk' if chunks == 1 else 'chunks'}"
        return f"Share({what})" if self._is_open else f"Share({what}, closed)"


def receive(over: socket.socket) -> Share:
    """Receives a share that the other end of a connected Unix socket sends with `Share.send`. Waits for it.

    Nothing that comes is trusted: what is no share, or not all of one, is refused, and its descriptors are closed.

    Args:
        over: a connected Unix socket. A timeout that it has holds for each message.

    Raises:
        ConfigError: if it is no Unix socket, or what comes is no share.
        OSError: as the socket answers.
    """
    return Share._make(*receive_share(over))


def export_buffer(buffer: _native.Lease) -> Share:
    """The share of a live buffer; `Buffer.export` says more."""
    return _share_of(_native.export_lease(buffer), [Device._of(core) for core in buffer._devices])


def export_pool(pool: _native.Pool, devices: Sequence[Device]) -> tuple[Share, ...]:
    """The shares of all live buffers of a pool on these devices; `Pool.export` says more."""
    exported = _native.export_pool(pool)
    try:
        return tuple(_share_of(parts, devices) for parts in exported)
    except BaseException:
        for _, _, descriptors, _, _ in exported:
            close_all(descriptors)
        raise


def _share_of(parts: tuple[int, int, list[int], list[int], list[int]], devices: Sequence[Device]) -> Share:
    address, nbytes, descriptors, sizes, numbers = parts
    try:
        # Only those that memory lies on: others need not be there where it is opened.
        used = sorted(set(numbers))
        uuids = [UUID(devices[number].uuid).bytes for number in used]
        chunks = [(size, used.index(number)) for size, number in zip(sizes, numbers, strict=True)]
        layout = layout_of(nbytes, address, devices[0].is_emulated, uuids, chunks)
        return Share._make(layout, descriptors)
    except BaseException:
        close_all(descriptors)
        raise


def _reduce(share: Share) -> tuple[Callable[[Any], Share], tuple[Any]]:
    """For multiprocessing: any number of descriptors, as a socket in which they lie ready."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)  # nobody reads yet, so waiting would be for ever
        try:
            share.send(ours)
        except BlockingIOError:
            raise ConfigError(
                f"{share!r} has too many chunks for multiprocessing to carry; use share.send(socket)"
            ) from None
        popen = context.get_spawning_popen()
        if popen is None:
            return _rebuild, (reduction.DupFd(theirs.fileno()),)
        # A new process inherits it when it starts, which is later; then nobody needs it here.
        inherited = os.dup(theirs.fileno())
        weakref.finalize(popen, os.close, inherited)
        return _rebuild, (reduction.DupFd(inherited),)


def _rebuild(duplicate: Any) -> Share:
    with socket.socket(fileno=duplicate.detach()) as over:
        return receive(over)


reduction.register(Share, _reduce)
