"""Physical chunks: a `Chunk` is physical memory, without an address."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from weakref import ReferenceType, ref

from memlake import _native
from memlake.device.device import open_core
from memlake.errors import ConfigError, InvalidFree
from memlake.ownership.closable import Closable
from memlake.units import Size, format_bytes, parse_bytes
from memlake.vmm.driver_object import DriverObject

if TYPE_CHECKING:
    from typing_extensions import Self

    from memlake.device.device import Device
    from memlake.vmm.segment import Segment

__all__ = ["Chunk", "chunk_sizes", "claim", "create", "hand_over", "import_chunk", "let_go"]

# Guards the users of all chunks: a segment claims several chunks at once, or none.
_claims = threading.Lock()


def create(device: Device, nbytes: Size, *, exportable: bool = False) -> Chunk:
    """Creates physical memory on a device (``cuMemCreate``). It has no address until it is mapped.

    Args:
        device: the device of the memory.
        nbytes: the size, a multiple of the device's granularity. The driver does not round it.
        exportable: True if other processes shall be able to import the chunk.

    Raises:
        DriverError: if the driver refuses; `is_out_of_memory` is True if the device has too little free memory.
    """
    core = _native.PhysicalChunk(open_core(device), parse_bytes(nbytes, what="nbytes"), exportable)
    return Chunk._make(device, core)


def import_chunk(device: Device, fd: int, nbytes: Size) -> Chunk:
    """Imports a chunk that another process exported. The descriptor may be closed afterwards.

    Args:
        device: the device of the memory, in this process.
        fd: the file descriptor, as received (``socket.recv_fds``, ``multiprocessing.reduction``).
        nbytes: the size of the chunk. The driver does not report it.
    """
    if isinstance(fd, bool) or not isinstance(fd, int):
        raise ConfigError(f"a file descriptor is an int, got {fd!r} of type {type(fd).__name__}")
    core = _native.PhysicalChunk.import_fd(open_core(device), fd, parse_bytes(nbytes, what="nbytes"))
    return Chunk._make(device, core)


class Chunk(Closable, DriverObject[_native.PhysicalChunk]):
    """Physical memory from one ``cuMemCreate``. It cannot be split. It may be mapped at several addresses.

    A chunk has at most one user: the segment that took it or was stitched from it. A chunk without a user is free.
    When a chunk is dropped, its memory is released after its last mapping is closed.
    """

    # `_user` and `_home` are the only record of a chunk's state. Both are weak: dropping a segment frees its chunks.
    __slots__ = ("__weakref__", "_core", "_device", "_home", "_user")
    _made_by = "memlake.vmm.create() or memlake.vmm.import_chunk()"

    _device: Device
    _user: ReferenceType[Segment] | None
    _home: ReferenceType[Segment] | None

    @classmethod
    def _make(cls, device: Device, core: _native.PhysicalChunk) -> Self:
        chunk = object.__new__(cls)
        chunk._core = core
        chunk._device = device
        chunk._user = None
        chunk._home = None
        return chunk

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self._core.nbytes

    @property
    def device(self) -> Device:
        """The device of the memory."""
        return self._device

    @property
    def handle(self) -> int:
        """The driver's ``CUmemGenericAllocationHandle``."""
        return self._open.handle

    @property
    def user(self) -> Segment | None:
        """The segment that uses the chunk, or None."""
        return self._user() if self._user is not None else None

    @property
    def home(self) -> Segment | None:
        """The segment that created the chunk and releases it, or None if `create` or `import_chunk` made it."""
        return self._home() if self._home is not None else None

    @property
    def is_free(self) -> bool:
        """True if the chunk has no user."""
        return self.user is None

    @property
    def is_open(self) -> bool:
        """False after close()."""
        return self._core.is_open

    def export(self) -> int:
        """Returns a new file descriptor for another process. The chunk must be created with ``exportable=True``.

        The descriptor keeps the memory alive. The caller must close it (``os.close``).
        """
        return self._open.export_fd()

    def close(self) -> None:
        """Releases the chunk. The device gets the memory back after the last mapping is closed.

        Raises:
            InvalidFree: if the chunk is already closed, or a segment uses or owns it.
        """
        if not self.is_open:
            raise InvalidFree(f"{self!r} was closed before")
        holder = self.user or self.home
        if holder is not None:
            raise InvalidFree(f"{self!r} belongs to {holder!r}; close that instead")
        self._core.close()

    def __repr__(self) -> str:
        state = "closed" if not self.is_open else "free" if self.is_free else "used"
        return f"Chunk({format_bytes(self.nbytes)} on device {self._device.ordinal}, {state})"


def claim(chunks: Iterable[Chunk], user: Segment) -> None:
    """Makes `user` the user of all the chunks, or of none of them.

    Raises:
        ConfigError: if one has a user already; the message names it.
        ClosedError: if one is closed.
    """
    claimed: list[Chunk] = []
    with _claims:
        try:
            for chunk in chunks:
                if not isinstance(chunk, Chunk):
                    raise ConfigError(f"expected a memlake Chunk, got {type(chunk).__name__}")
                chunk._open  # noqa: B018  raises if it is closed
                if chunk.user is user and chunk in claimed:
                    raise ConfigError(f"{chunk!r} is given twice; a chunk has at most one user")
                if not chunk.is_free:
                    raise ConfigError(f"{chunk!r} is used by {chunk.user!r}; it must be free")
                chunk._user = ref(user)
                claimed.append(chunk)
        except BaseException:
            for chunk in claimed:
                chunk._user = None
            raise


def let_go(chunks: Iterable[Chunk], user: Segment) -> None:
    """Ends the use of those chunks that `user` uses."""
    with _claims:
        for chunk in chunks:
            if chunk.user is user:
                chunk._user = None


def hand_over(chunks: Iterable[Chunk], before: Segment, after: Segment | None) -> None:
    """Replaces `before` by `after` as the user and the home of the chunks. None: they have no user and no home."""
    successor = ref(after) if after is not None else None
    with _claims:
        for chunk in chunks:
            if chunk.user is before:
                chunk._user = successor
            if chunk.home is before:
                chunk._home = successor


def chunk_sizes(device: Device, nbytes: Size, chunk_size: Size | Sequence[Size] | None) -> Iterator[int]:
    """Yields the sizes of the chunks for `nbytes`: equal sizes and the rest, or the given sizes."""
    total = parse_bytes(nbytes, what="nbytes")
    if isinstance(chunk_size, Sequence) and not isinstance(chunk_size, str):
        sizes = [parse_bytes(size, what="chunk_size") for size in chunk_size]
        if sum(sizes) != total:
            raise ConfigError(f"the chunk sizes add up to {format_bytes(sum(sizes))}, not to {format_bytes(total)}")
        yield from sizes
        return
    each = open_core(device).granularity(True) if chunk_size is None else parse_bytes(chunk_size, what="chunk_size")
    if each == 0:
        raise ConfigError("chunk_size must not be 0")
    # Sizes are yielded one by one: a huge size fails at the first chunk that does not fit, without a huge list.
    for place in range(0, total, each):
        yield min(each, total - place)
