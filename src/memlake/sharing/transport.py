"""Transport of shares: sends and receives descriptors over a connected Unix socket, in several messages if needed.

The kernel takes at most 253 descriptors per message (``SCM_MAX_FD``). Child programs do not inherit received
descriptors. After an error all received descriptors are closed.
"""

from __future__ import annotations

import os
import socket
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from memlake.errors import ConfigError
from memlake.sharing.layout import HEADER_SIZE, Layout, read_header, read_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["close_all", "receive_share", "send_share"]

_MOST_PER_MESSAGE = 253
_MARK = b"d"  # the kernel sends descriptors only with at least one byte of data
_FD_SIZE = array("i").itemsize
_ROOM = socket.CMSG_SPACE(_MOST_PER_MESSAGE * _FD_SIZE)


def send_share(over: socket.socket, layout: Layout, descriptors: Sequence[int]) -> None:
    """Sends a share. The caller keeps its descriptors and closes them.

    Raises:
        ConfigError: if the socket is not a Unix socket.
        OSError: if the socket fails.
    """
    _require_unix(over)
    over.sendall(layout.header())
    over.sendall(layout.table())
    for place in range(0, len(descriptors), _MOST_PER_MESSAGE):
        part = array("i", descriptors[place : place + _MOST_PER_MESSAGE])
        over.sendmsg([_MARK], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, part)])


def receive_share(over: socket.socket) -> tuple[Layout, list[int]]:
    """Receives the message of `send_share`: the layout and one open descriptor per chunk, which the caller closes.

    Raises:
        ConfigError: if the socket is not a Unix socket, or the received data is no share or incomplete.
        OSError: if the socket fails.
    """
    _require_unix(over)
    header = read_header(_receive_exactly(over, HEADER_SIZE))
    layout = read_table(header, _receive_exactly(over, header.table_size))
    return layout, _receive_descriptors(over, header.chunk_count)


def close_all(descriptors: Iterable[int]) -> None:
    """Closes descriptors and ignores errors of descriptors that are already closed."""
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)


def _receive_exactly(over: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        # The call passes no buffer for descriptors, so the kernel closes descriptors that arrive with these bytes.
        more, _, flags, _ = over.recvmsg(count - len(data))
        if not more:
            raise ConfigError(f"the other side ended the connection after {len(data)} of {count} bytes of a share")
        if flags & socket.MSG_TRUNC:
            raise ConfigError("what came over the socket is no share of memlake: a message is too long")
        data += more
    return data


def _receive_descriptors(over: socket.socket, count: int) -> list[int]:
    received: list[int] = []
    try:
        while len(received) < count:
            _receive_some(over, received, count)
    except BaseException:
        close_all(received)
        raise
    return received


def _receive_some(over: socket.socket, received: list[int], count: int) -> None:
    """Receives one message of descriptors into `received`. It adds those of a refused message, too, so that the
    caller closes them."""
    before = len(received)
    data, ancillary, flags, _ = over.recvmsg(len(_MARK), _ROOM, socket.MSG_CMSG_CLOEXEC)
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            received.extend(array("i", payload[: len(payload) // _FD_SIZE * _FD_SIZE]))
    if not data:
        raise ConfigError(f"the other side ended the connection after {before} of {count} descriptors")
    if flags & socket.MSG_CTRUNC:
        raise ConfigError(
            f"descriptors were lost on the way: this process may have no room for {count} more (see ulimit -n)"
        )
    wanted = min(count - before, _MOST_PER_MESSAGE)
    if len(received) - before != wanted or data != _MARK:
        raise ConfigError(
            f"{len(received) - before} descriptors came where {wanted} of {count} should have come; what is sent over "
            "the socket besides must not mix with a share"
        )


def _require_unix(over: socket.socket) -> None:
    if not isinstance(over, socket.socket):
        raise ConfigError(f"a share travels over a socket, got {type(over).__name__}")
    if over.family != socket.AF_UNIX:
        raise ConfigError(
            "only a Unix socket (AF_UNIX) can carry the descriptors of a share; both ends are on one machine"
        )
