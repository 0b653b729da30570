"""`mem_pool`: a block of a program whose tensors get the memory of one memlake pool."""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING, Any

from memlake.errors import ConfigError
from memlake.torch.c_functions import core, last_error
from memlake.torch.torch_build import import_torch, installed_build

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlake.pool import Pool

__all__ = ["mem_pool"]


@contextlib.contextmanager
def mem_pool(pool: Pool) -> Iterator[Any]:
    """Gives the tensors that this thread makes inside the block the memory of a pool.

    ::

        pool = memlake.Pool(memlake.devices()[0], limit="20GiB")
        with memlake.torch.mem_pool(pool):
            cache = torch.empty(10**9, device="cuda")

    It is a ``torch.cuda.MemPool`` whose segments come from the pool, so it works with and without
    `memlake.torch.install`. Tensors stay valid after the block. When the last one is gone, their memory goes back to
    the pool at the next ``torch.cuda.empty_cache()``, and at the latest when PyTorch needs memory.

    Yields:
        The ``torch.cuda.MemPool``, for its ``snapshot()``.

    Raises:
        ConfigError: if this PyTorch is not supported, or if the pool is over several devices or on the host.
    """
    installed_build()
    torch = import_torch()
    if len(pool.devices) != 1 or pool.location != "device":
        raise ConfigError("a region of PyTorch needs a pool in the memory of one device")
    functions = (ctypes.c_void_p(), ctypes.c_void_p())
    if core().memlake_torch_functions(ctypes.c_void_p(pool.native_handle), *map(ctypes.byref, functions)) != 0:
        raise ConfigError(last_error())
    allocate, free = (function.value for function in functions)
    region = None
    try:
        allocator = torch._C._cuda_customAllocator(allocate, free)
        region = torch.cuda.MemPool(allocator)
        with torch.cuda.use_mem_pool(region, device=pool.device.ordinal):
            yield region
    finally:
        del region
        core().memlake_torch_end_functions(ctypes.c_void_p(allocate))
