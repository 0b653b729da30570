"""Shares: a `Share` is an exported buffer that can be sent to another process."""

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
from memlake.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

__all__ = ["Share", "export_buffer", "export_pool", "receive"]


class Share(Closable, FactoryMade):
    """An exported buffer. `Buffer.export` and `receive` make it.

    A share has a file descriptor of each chunk of the buffer. Only a process that has the descriptors can open the
    memory. The descriptors keep the memory alive, even after the buffer is closed and the exporting process has ended.
    Close the share after it was sent or opened.

    `send` sends a share over a Unix socket. `multiprocessing` can send it as an argument of a process that is started
    with ``spawn``, through a queue or through a connection. The receiver gets a share with descriptors of its own.
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
        """The size of the buffer in bytes."""
        return self._layout.nbytes

    @property
    def address(self) -> int:
        """The address of the buffer in the exporting process: its `Buffer.ptr`."""
        return self._layout.address

    @property
    def chunk_sizes(self) -> tuple[int, ...]:
        """The size of each chunk, in order. The last chunk may be larger than the rest of the buffer."""
        return tuple(nbytes for nbytes, _ in self._layout.chunks())

    @property
    def device_uuids(self) -> tuple[str, ...]:
        """The UUIDs of the devices of the chunks."""
        return tuple(str(UUID(bytes=uuid)) for uuid in self._layout.uuids)

    @property
    def is_open(self) -> bool:
        """False after close()."""
        return self._is_open

    def open(self, device: Device | Sequence[Device] | None = None, *, read_only: bool = False) -> SharedBuffer:
        """Maps the memory into this process as one contiguous range. It has the same bytes as the exported buffer.

        The shared buffer stays valid after the share is closed and after the exporting process has ended.

        Args:
            device: the device, or several devices of one driver, that get access. None: the devices of the memory,
                which this process must have.
            read_only: True to map the memory read-only. This prevents mistakes; it is no protection, because the share
                can be opened again.

        Raises:
            ClosedError: if the share is closed.
            ConfigError: if this process does not have the devices, or a descriptor is not memory of these devices.
            DriverError: if the driver refuses.
        """
        self._require_open()
        return open_share(self._layout, self._descriptors, device, read_only=read_only)

    def send(self, over: socket.socket) -> None:
        """Sends the share over a connected Unix socket, to a process that calls `receive`. The share stays open.

        Raises:
            ClosedError: if the share is closed.
            ConfigError: if the socket is not a Unix socket.
            OSError: if the socket fails.
        """
        self._require_open()
        send_share(over, self._layout, self._descriptors)

    def close(self) -> None:
        """Closes the descriptors. Buffers that were opened from the share stay open.

        Raises:
            InvalidFree: if the share is already closed.
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
        what = f"{format_bytes(self.nbytes)} in {counted(self._layout.chunk_count, 'chunk')}"
        return f"Share({what})" if self._is_open else f"Share({what}, closed)"


def receive(over: socket.socket) -> Share:
    """Waits for a share that another process sends with `Share.send`, and returns it.

    The received data is checked. An incomplete or malformed share is refused, and its descriptors are closed.

    Args:
        over: a connected Unix socket. Its timeout applies to each message.

    Raises:
        ConfigError: if the socket is not a Unix socket, or the data is not a share.
        OSError: if the socket fails.
    """
    return Share._make(*receive_share(over))


def export_buffer(buffer: _native.Lease) -> Share:
    """Exports a live buffer; see `Buffer.export`."""
    return _share_of(_native.export_lease(buffer), [Device._of(core) for core in buffer._devices])


def export_pool(pool: _native.Pool, devices: Sequence[Device]) -> tuple[Share, ...]:
    """Exports all live buffers of a pool on these devices; see `Pool.export`."""
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
        # Only devices that have memory of the buffer: the importing process need not have the others.
        used = sorted(set(numbers))
        uuids = [UUID(devices[number].uuid).bytes for number in used]
        chunks = [(size, used.index(number)) for size, number in zip(sizes, numbers, strict=True)]
        layout = layout_of(nbytes, address, devices[0].is_emulated, uuids, chunks)
        return Share._make(layout, descriptors)
    except BaseException:
        close_all(descriptors)
        raise


def _reduce(share: Share) -> tuple[Callable[[Any], Share], tuple[Any]]:
    """Pickles a share for multiprocessing: as a socket that already contains the message with the descriptors."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)  # no process reads yet, so a blocking send could wait forever
        try:
            share.send(ours)
        except BlockingIOError:
            raise ConfigError(
                f"{share!r} has too many chunks for multiprocessing to carry; use share.send(socket)"
            ) from None
        popen = context.get_spawning_popen()
        if popen is None:
            return _rebuild, (reduction.DupFd(theirs.fileno()),)
        # The new process inherits the descriptor when it starts; it is closed here with the Popen object.
        inherited = os.dup(theirs.fileno())
        weakref.finalize(popen, os.close, inherited)
        return _rebuild, (reduction.DupFd(inherited),)


def _rebuild(duplicate: Any) -> Share:
    with socket.socket(fileno=duplicate.detach()) as over:
        return receive(over)


reduction.register(Share, _reduce)
