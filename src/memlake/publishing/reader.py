"""The reader: finds the processes of this user that publish, and asks them for their figures."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from typing import Any

from memlake.publishing.folder import PublishFolder
from memlake.publishing.publisher import LENGTH, QUESTION, user_of

__all__ = ["Published", "PublishedPool", "PublishedStream", "Reader"]

_PATIENCE = 0.5
"""How many seconds all processes together have to answer. One that is stopped does not."""
_LONGEST_ANSWER = 16 * 2**20


@dataclass(frozen=True)
class PublishedStream:
    """The memory of one stream of a pool, in bytes; see `memlake.pool.stats.StreamStats`."""

    stream: int
    live: int
    pending: int
    free: int


@dataclass(frozen=True)
class PublishedPool:
    """The figures of a pool. Sizes are in bytes.

    Attributes:
        pool: a number that the pool has as long as it exists.
        policy: its policy with the options that are not the default.
        devices: the ordinals of its devices.
        device: the name of its first device.
        serves: ``"torch"`` if PyTorch's tensors are in it, else empty.
        limit: the most that it may hold; None: no limit.
        held: physical memory that was created and not released; `held_on_host` is the part on the host.
        live, free, pending: blocks in use, cached blocks, and freed blocks that a stream may still use.
        num_live: the number of blocks in use.
        retries: how often all cached memory was released to try a request once more.
        ooms: the number of requests that were refused.
        waits: how often the host had to wait for a stream.
        moves: how many chunks were moved; None for a policy that moves none.
        driver_ms: the time of the pool's driver calls on a GPU, by the cost table.
        streams: the memory of each stream.
    """

    pool: int
    policy: str
    devices: tuple[int, ...]
    device: str
    serves: str
    limit: int | None
    held: int
    held_on_host: int
    live: int
    free: int
    pending: int
    num_live: int
    retries: int
    ooms: int
    waits: int
    moves: int | None
    driver_ms: float
    streams: tuple[PublishedStream, ...]


@dataclass(frozen=True)
class Published:
    """A process that publishes.

    Attributes:
        process: its id, as the kernel knows it.
        program: its command line, shortened.
        version: its version of memlake.
        pools: its open pools; None if it did not answer in time.
    """

    process: int
    program: str
    version: str
    pools: tuple[PublishedPool, ...] | None

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as a dict."""
        return asdict(self)


class Reader:
    """Reads the figures of all processes of this user that publish. Connections stay open between two readings."""

    def __init__(self) -> None:
        self._connections: dict[tuple[str, str], socket.socket] = {}

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        for one in self._connections.values():
            one.close()
        self._connections.clear()

    def read(self) -> list[Published]:
        """Asks every process once, and removes the sockets of dead ones.

        Raises:
            ConfigError: if the folder of the sockets must not be used.
        """
        self._connect()
        asked = [key for key in list(self._connections) if self._ask(key)]
        deadline = time.monotonic() + _PATIENCE
        found = [self._take(key, deadline) for key in asked]
        return sorted((one for one in found if one is not None), key=lambda one: one.process)

    def _connect(self) -> None:
        """Connects to new sockets. A socket that nobody answers is one of a dead process and is removed."""
        for folder in PublishFolder.all():
            for name in folder.sockets():
                if (folder.path, name) in self._connections:
                    continue
                one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                one.settimeout(_PATIENCE)
                try:
                    one.connect(folder.address_of(name))
                except OSError as error:
                    one.close()
                    if error.errno == errno.ECONNREFUSED:
                        folder.remove(name)
                    continue
                if user_of(one)[1] != os.geteuid():
                    one.close()
                    continue
                self._connections[folder.path, name] = one

    def _ask(self, key: tuple[str, str]) -> bool:
        try:
            self._connections[key].sendall(QUESTION)
        except OSError:
            self._connections.pop(key).close()
            return False
        return True

    def _take(self, key: tuple[str, str], deadline: float) -> Published | None:
        """Returns what a process answered; None if it has ended, or if it does not speak as a publisher does."""
        one = self._connections[key]
        process, _ = user_of(one)
        try:
            (length,) = LENGTH.unpack(_received(one, LENGTH.size, deadline))
            if length > _LONGEST_ANSWER:
                raise ValueError("too long")
            return _published(process, json.loads(_received(one, length, deadline)))
        except TimeoutError:
            # The answer may come later, between others, so the connection cannot be used any more.
            self._connections.pop(key).close()
            return Published(process, "", "", None)
        except (OSError, EOFError, ValueError, KeyError, TypeError):
            self._connections.pop(key).close()
            return None


def _received(one: socket.socket, nbytes: int, deadline: float) -> bytes:
    parts = []
    while nbytes:
        one.settimeout(max(deadline - time.monotonic(), 0.001))
        part = one.recv(min(nbytes, 2**16))
        if not part:
            raise EOFError
        parts.append(part)
        nbytes -= len(part)
    return b"".join(parts)


_NO_LIMIT = 2**63


def _published(process: int, given: Any) -> Published:
    """Makes a `Published` of an answer. Every value is converted: the other process may run another program."""
    return Published(process, str(given["program"]), str(given["version"]), tuple(map(_pool, given["pools"])))


def _pool(given: Any) -> PublishedPool:
    """Makes the figures of a pool. ``now`` has what changes, in the order of core/runtime/published_figures.cpp."""
    *numbers, driver_us = given["now"]
    limit, held, held_on_host, allocated, active, num_live, retries, ooms, waits = map(int, numbers)
    return PublishedPool(
        pool=int(given["pool"]),
        policy=str(given["policy"]),
        devices=tuple(map(int, given["devices"])),
        device=str(given["device"]),
        serves=str(given["serves"]),
        limit=None if limit >= _NO_LIMIT else limit,
        held=held,
        held_on_host=held_on_host,
        live=allocated,
        free=held + held_on_host - active,
        pending=active - allocated,
        num_live=num_live,
        retries=retries,
        ooms=ooms,
        waits=waits,
        moves=None if given["moves"] is None else int(given["moves"]),
        driver_ms=float(driver_us) / 1000,
        streams=tuple(PublishedStream(*map(int, stream)) for stream in given["streams"]),
    )
