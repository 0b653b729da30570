"""The publisher: answers readers in threads of its own."""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from memlake.errors import MemlakeError
from memlake.ownership.closable import Closable
from memlake.publishing.folder import ENDING, PublishFolder

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LENGTH", "QUESTION", "Publisher", "user_of"]

QUESTION = b"?"
"""What a reader sends for each answer."""
LENGTH = struct.Struct("!I")
"""An answer is its length in this form, and then JSON."""
_CREDENTIALS = struct.Struct("3i")
_MOST_READERS = 16
_TO_END = 1.0
"""How many seconds a thread has to end. It may wait for the lock of a pool."""


class Publisher(Closable):
    """Answers readers of the same user until it is closed, its ``with`` block ends or the process ends.

    A forked child does not publish: it has none of the pools. A process that is killed leaves its socket behind, which
    nobody answers; readers remove it.

    Args:
        answer: answers a reader on a socket, given by its descriptor, until the reader or the socket ends. It is called
            in a thread of the publisher, one for each reader. For each `QUESTION` it sends the length of the answer, as
            `LENGTH` packs it, and the answer, which is JSON.

    Raises:
        ConfigError: if the folder of the sockets must not be used.
        OSError: if the socket cannot be made.
    """

    def __init__(self, answer: Callable[[int], None]) -> None:
        self._answer_reader = answer
        self._process = os.getpid()
        self._readers: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()
        self._name = f"{self._process}-{secrets.token_hex(4)}{ENDING}"
        self._folder = PublishFolder.home()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        hidden = f".{self._name}"
        try:
            self._listener.bind(self._folder.address_of(hidden))
            self._listener.listen()
            # It gets its name when it listens: a socket with a name that nobody answers is one of a dead process.
            self._folder.rename(hidden, self._name)
        except BaseException:
            self._listener.close()
            self._folder.remove(hidden)
            self._folder.close()
            raise
        self._is_open = True
        self._start(self._accept)
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._forget)

    @property
    def is_open(self) -> bool:
        """False after `close`, and in a forked child."""
        return self._is_open and self._process == os.getpid()

    def close(self) -> None:
        """Ends publishing and removes the socket."""
        if not self.is_open:
            return
        self._is_open = False
        atexit.unregister(self.close)
        self._folder.remove(self._name)
        self._folder.close()
        sockets = (self._listener, *self._readers)
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for it
        # A thread that still reads pools when Python ends would keep them alive.
        for thread in self._threads - {threading.current_thread()}:
            thread.join(_TO_END)
        for one in sockets:
            one.close()

    def _forget(self) -> None:
        """In a forked child: closes what belongs to the parent, whose socket stays."""
        if not self._is_open:
            return
        self._is_open = False
        self._listener.close()
        self._folder.close()
        for one in self._readers:
            one.close()

    def _start(self, function: Callable[..., None], *arguments: Any) -> None:
        def run() -> None:
            try:
                function(*arguments)
            finally:
                self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name="memlake-publish", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                reader, _ = self._listener.accept()
            except OSError:
                return  # closed
            # The folder keeps others out. This does it once more, for instance if somebody has opened the folder.
            if user_of(reader)[1] != os.geteuid() or len(self._readers) >= _MOST_READERS:
                reader.close()
                continue
            self._readers.add(reader)
            self._start(self._answer, reader)

    def _answer(self, reader: socket.socket) -> None:
        try:
            # A reader that is gone ends this, and a driver that is shutting down does.
            with suppress(OSError, MemlakeError):
                self._answer_reader(reader.fileno())
        finally:
            self._readers.discard(reader)
            reader.close()


def user_of(connection: socket.socket) -> tuple[int, int]:
    """Returns the process and the user at the other end of a connection, as the kernel knows them."""
    process, user, _ = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return process, user
