"""Host buffers: host memory as the source or destination of a copy."""

from __future__ import annotations

from typing import Any

from memlake.errors import ConfigError

__all__ = ["HostBuffer", "HostBufferLike"]

# Any object with Python's buffer protocol: NumPy arrays, bytes, bytearray, memoryview, array.array, ...
# (collections.abc.Buffer, its type, came with Python 3.12.)
HostBufferLike = Any


class HostBuffer:
    """A contiguous range of host memory, from an object with Python's buffer protocol."""

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
