"""`MemlakeResource`: a cuda.core ``MemoryResource`` over a memlake pool."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from memlake.errors import ConfigError, InvalidFree

try:
    from cuda.core import Buffer, MemoryResource
except ImportError as error:
    raise ConfigError(
        f"memlake.cuda_core needs cuda.core 0.4 or newer ({error}); install it: pip install 'memlake[cuda]'"
    ) from error

if TYPE_CHECKING:
    from memlake.pool import Buffer as PoolBuffer
    from memlake.pool import Pool

__all__ = ["MemlakeResource"]


class MemlakeResource(MemoryResource):
    """A memory resource of cuda.core whose buffers are memory of a memlake pool.

    ::

        device = cuda.core.Device()
        device.set_current()
        device.memory_resource = MemlakeResource(memlake.Pool(memlake.devices()[device.device_id]))
        buffer = device.allocate(1 << 20, stream=stream)    # a cuda.core Buffer

    The pool keeps the order of streams: a buffer that is closed on a stream is reused there at once, and elsewhere when
    that stream has passed.
    """

    def __init__(self, pool: Pool) -> None:
        """Makes a resource.

        Args:
            pool: the pool. Its memory lives at least as long as the buffers of this resource.
        """
        self._pool = pool
        self._live: dict[int, PoolBuffer] = {}
        self._lock = threading.Lock()

    @property
    def pool(self) -> Pool:
        """The pool that the memory comes from."""
        return self._pool

    def allocate(self, size: int, *, stream: Any) -> Any:
        """Allocates a buffer.

        Args:
            size: bytes.
            stream: the cuda.core ``Stream`` for whose work the buffer is.

        Raises:
            OutOfMemory: if the pool has no memory for it.
        """
        memory = self._pool.allocate(size, stream=stream)
        if memory.ptr:
            with self._lock:
                self._live[memory.ptr] = memory
        try:
            return Buffer.from_handle(memory.ptr, size, mr=self, stream=stream)
        except TypeError:  # cuda.core before 1.0 has no stream there
            return Buffer.from_handle(memory.ptr, size, mr=self)

    def deallocate(self, ptr: Any, size: int, *, stream: Any) -> None:
        """Frees the memory of a buffer in the order of a stream. cuda.core calls it when a buffer is closed.

        Raises:
            InvalidFree: if the address is not one of a live buffer of this resource.
        """
        address = int(ptr)
        if address == 0:
            return
        with self._lock:
            memory = self._live.pop(address, None)
        if memory is None:
            raise InvalidFree(f"no live buffer of {self!r} begins at {address:#x}")
        memory.close(stream=stream)

    @property
    def is_device_accessible(self) -> bool:
        """Always true: pools have memory that devices can use."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """True if the pool has its memory on the host."""
        return self._pool.location != "device"

    @property
    def is_managed(self) -> bool:
        """Always false."""
        return False

    @property
    def device_id(self) -> int:
        """The ordinal of the pool's first device; -1 if its memory is on the host."""
        return -1 if self.is_host_accessible else self._pool.devices[0].ordinal

    def __repr__(self) -> str:
        return f"MemlakeResource({self._pool!r})"
