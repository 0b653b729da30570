"""Host memory that takes part in a copy: where it is, and that it stays until the copy is over."""

from __future__ import annotations

import atexit
import ctypes
import threading
from typing import TYPE_CHECKING, Any

from memlake.errors import ClosedError, ConfigError, DriverError

if TYPE_CHECKING:
    from memlake.event import Event
    from memlake.stream import Stream

__all__ = ["HostBuffer", "HostBufferLike", "keep_until_done"]

# Whatever has Python's buffer protocol: NumPy arrays, bytes, bytearray, memoryview, array.array, ...
# (collections.abc.Buffer, its type, came with Python 3.12.)
HostBufferLike = Any


class HostBuffer:
    """A contiguous piece of host memory behind Python's buffer protocol."""

    __slots__ = ("_array", "address", "nbytes")

    def __init__(self, source: HostBufferLike, *, is_written: bool = False) -> None:
        import numpy as np

        try:
            # Holds the buffer of `source`, so that a bytearray cannot move while we know its address.
            self._array = np.frombuffer(source, dtype=np.uint8) if memoryview(source).nbytes else np.empty(0, np.uint8)
        except (TypeError, ValueError, BufferError) as error:
            raise ConfigError(
                "expected device memory or a contiguous host buffer such as a NumPy array or bytes, "
                f"got {type(source).__name__}: {error}"
            ) from None
        if is_written and self._array.nbytes and not self._array.flags.writeable:
            raise ConfigError(f"cannot copy into a read-only {type(source).__name__}")
        self.address: int = self._array.ctypes.data
        self.nbytes: int = self._array.nbytes


# Host buffers of copies that may not be over. Not an attribute of a stream or a device: those may be dropped while
# their work goes on.
_kept: list[tuple[Event | None, HostBuffer]] = []
_lock = threading.Lock()


def keep_until_done(buffer: HostBuffer, stream: Stream) -> None:
    """Keeps a host buffer alive until everything that is queued on the stream so far is done."""
    try:
        event = stream.record()
    except DriverError:
        event = None  # without an event nobody will know when it is over, so it is kept for good
    with _lock:
        _kept[:] = [entry for entry in _kept if not _is_over(entry[0])]
        _kept.append((event, buffer))


def _is_over(event: Event | None) -> bool:
    if event is None:
        return False
    try:
        return event.is_done
    except (ClosedError, DriverError):
        return True  # the device was closed, or its context is lost: no work of it runs any more


@atexit.register
def _leak_on_purpose() -> None:
    # Python frees its objects at exit while the driver's threads still copy: what they use must outlive both.
    for entry in _kept:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(entry))
