"""The C functions of ``memlake.h`` that the Python side of the PyTorch integration calls."""

from __future__ import annotations

import ctypes
from functools import cache

from memlake.errors import ConfigError
from memlake.libraries import native_library

__all__ = ["PoolCounts", "address_of", "core", "counts_of", "last_error"]

_CLASSES = ("all", "small_pool", "large_pool")
# In the order of memlake_pool_counts_t, by PyTorch's names.
_LEVELS = (
    *("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes"),
    *("inactive_split_bytes", "requested_bytes"),
)
_TOTALS = ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free", "num_sync_all_streams")


_FIGURES = ("current", "peak", "allocated", "freed")


class _Count(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in _FIGURES)


class PoolCounts(ctypes.Structure):
    """``memlake_pool_counts_t``."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        *((name, _Count * 3) for name in _LEVELS),
        *((name, ctypes.c_uint64) for name in (*_TOTALS, "largest_free")),
    )

    def to_torch(self) -> dict[str, object]:
        """Returns the figures as ``torch.cuda.memory_stats_as_nested_dict`` does."""
        result: dict[str, object] = {
            level: {
                of: {name: getattr(count, name) for name in _FIGURES}
                for of, count in zip(_CLASSES, getattr(self, level), strict=True)
            }
            for level in _LEVELS
        }
        result.update({name: getattr(self, name) for name in _TOTALS})
        nothing = dict.fromkeys(_FIGURES, 0)
        return result | {"oversize_allocations": nothing, "oversize_segments": dict(nothing), "max_split_size": -1}


@cache
def core() -> ctypes.CDLL:
    """Returns the library, with the types of the functions that are called from Python."""
    library = ctypes.CDLL(native_library())
    library.memlake_last_error.restype = ctypes.c_char_p
    library.memlake_torch_pool.restype = ctypes.c_void_p
    library.memlake_torch_pool.argtypes = [ctypes.c_int, ctypes.c_char_p]
    for name in ("memlake_pool_count_by_size", "memlake_pool_reset_peaks", "memlake_pool_reset_totals"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
    library.memlake_pool_counts.argtypes = [ctypes.c_void_p, ctypes.POINTER(PoolCounts)]
    return library


def last_error() -> str:
    """Returns the reason of this thread's last failure."""
    reason: bytes = core().memlake_last_error()
    return reason.decode(errors="replace")


def address_of(function: str) -> int:
    """Returns the address of a C function."""
    address = ctypes.cast(getattr(core(), function), ctypes.c_void_p).value
    assert address is not None
    return address


def counts_of(pool: int) -> PoolCounts:
    """Returns PyTorch's statistics of a pool.

    Raises:
        ConfigError: if the pool cannot be asked.
    """
    counts = PoolCounts(struct_size=ctypes.sizeof(PoolCounts))
    if core().memlake_pool_counts(pool, ctypes.byref(counts)) != 0:
        raise ConfigError(last_error())
    return counts
