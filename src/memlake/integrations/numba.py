"""`MemlakeMemoryManager`: an external memory manager for Numba."""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any, ClassVar

from memlake.device import devices
from memlake.errors import ConfigError, OutOfMemory
from memlake.pool import Pool

try:
    from numba import cuda
except ImportError as error:
    raise ConfigError(f"memlake.numba needs Numba with CUDA ({error}); install it: pip install numba-cuda") from error

if TYPE_CHECKING:
    from memlake.device import Stream
    from memlake.policies import Options
    from memlake.pool import Buffer
    from memlake.units import Size

__all__ = ["MemlakeMemoryManager", "install"]


def install(policy: str | Options = "lake", *, limit: Size | None = None) -> None:
    """Makes memlake the memory manager of the contexts that Numba makes from now on.

    Args:
        policy: the policy of the pools.
        limit: the most that each device's pool may hold; None: no limit.

    Raises:
        ConfigError: if Numba has a context already, or an argument is invalid.
    """
    if any(context.memory_manager is not None for context in _contexts()):
        raise ConfigError(
            "Numba has a context already, whose arrays have other memory; call memlake.numba.install() before the "
            "first use of numba.cuda"
        )
    settings: dict[str, Any] = {"policy": policy, "limit": limit}
    manager = type("MemlakeMemoryManager", (MemlakeMemoryManager,), {"_settings": settings})
    cuda.set_memory_manager(manager)


def _contexts() -> list[Any]:
    return [device.primary_context for device in cuda.gpus.lst if device.primary_context is not None]


class MemlakeMemoryManager(cuda.HostOnlyCUDAMemoryManager):
    """Gives device memory of a memlake pool to Numba. Page-locked and managed memory stays with Numba.

    Numba frees an array when its last reference goes, and does not say on which streams it was used. The manager
    therefore lets the pool reuse the memory only when all work that was queued before the free has finished on all
    blocking streams, which are those that Numba makes. No array waits on the device for memory, for the same reason.
    Work on non-blocking streams of other libraries must have finished before the array goes.
    """

    _settings: ClassVar[dict[str, Any]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Makes a manager; Numba does so for each context."""
        super().__init__(*args, **kwargs)
        self._pool: Pool | None = None
        self._stream: Stream | None = None
        self._buffers: dict[int, Buffer] = {}

    @property
    def pool(self) -> Pool:
        """The pool of the context's device."""
        if self._pool is None:
            device = devices()[self.context.device.id]
            self._pool = Pool(device, **self._settings)
            self._pool.reuse_allow_internal_dependencies = False
            # All arrays are allocated for one stream that runs no work. Memory is free for that stream when an event
            # behind its free has passed, and then it is free for every stream.
            self._stream = device.create_stream()
        return self._pool

    def initialize(self) -> None:
        """Prepares the context for allocations."""
        if self.deallocations.memory_capacity == 0:
            self.deallocations.memory_capacity = self.pool.devices[0].total_memory

    def memalloc(self, size: int) -> Any:
        """Returns memory of the pool, as Numba's pointer that frees it.

        Raises:
            OutOfMemory: if there is none.
        """
        try:
            buffer = self.pool.allocate(size, stream=self._stream)
        except OutOfMemory:
            self.deallocations.clear()  # host memory that is mapped into the device
            buffer = self.pool.allocate(size, stream=self._stream)
        address = buffer.ptr
        self._buffers[address] = buffer
        return cuda.MemoryPointer(
            weakref.proxy(self.context),
            ctypes.c_void_p(address),
            size,
            finalizer=_Free(self._buffers, address),
        )

    def get_memory_info(self) -> Any:
        """Returns the free and the total memory. Memory that the pool holds and does not use counts as free."""
        device = self.pool.devices[0]
        return cuda.MemoryInfo(free=device.free_memory + self.pool.stats().free, total=device.total_memory)

    def get_ipc_handle(self, memory: Any) -> Any:
        """Refuses: CUDA's IPC handles exist for memory of cuMemAlloc only.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "memory of a memlake pool has no CUDA IPC handle; allocate a buffer from memlake.Pool(..., "
            'handle_type="posix_fd") and send buffer.export() to the other process'
        )

    def reset(self) -> None:
        """Frees all arrays of the context."""
        super().reset()
        for address in list(self._buffers):
            _Free(self._buffers, address)()
        if self._pool is not None:
            self._pool.trim()

    @property
    def interface_version(self) -> int:
        """The version of Numba's interface."""
        return 1


class _Free:
    """Frees one array; Numba calls it when the last reference is gone, also at the end of the interpreter."""

    __slots__ = ("_address", "_buffers")

    def __init__(self, buffers: dict[int, Buffer], address: int) -> None:
        self._buffers = buffers
        self._address = address

    def __call__(self) -> None:
        buffer = self._buffers.pop(self._address, None)
        if buffer is None:  # reset() has freed it
            return
        # The default stream waits for all blocking streams, so an event there is behind all their work.
        buffer.record_stream(buffer.device.default_stream)
        buffer.close()
