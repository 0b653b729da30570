"""The options of the policy ``stitch``, GMLake's algorithm."""

from __future__ import annotations

from dataclasses import dataclass

from memlake.errors import ConfigError
from memlake.policies.options import Options
from memlake.units import Size, format_bytes, parse_bytes

__all__ = ["StitchOptions"]

_MIB = 2**20
_SIZES = ("frag_limit", "chunk_size", "max_view_bytes")
_COUNTS = ("max_views", "max_mappings")


@dataclass(frozen=True, kw_only=True)
class StitchOptions(Options):
    """GMLake's algorithm: the policy stitches free blocks that are not adjacent, and caches the stitched views.

    docs/concepts/how_stitch_decides.md describes the algorithm. Sizes are ints or strings such as ``"128MiB"``.

    Attributes:
        frag_limit: a request of at least this size is stitched from free blocks before new memory is created; a
            smaller request only if no new memory can be created. 0: all requests.
        reuse_limit: a cached view may serve a request that is smaller by up to this factor, with its first bytes; the
            rest of its memory stays free. 1: only requests of exactly its size.
        chunk_size: the size of the chunks that are created and mapped, in whole MiB and at least 2 MiB; rounded up to
            the device's granule. Requests of more than 1 MiB are rounded up to a multiple of it.
        max_views: the most stitched views, those in use and those in the cache. 0: no stitching.
        max_view_bytes: the most bytes that all views together map; None: four times the device's memory.
        max_mappings: the most mappings of all views; a view has one mapping per chunk.

    Raises:
        ConfigError: if a value is invalid.
    """

    name = "stitch"

    frag_limit: Size = 128 * _MIB
    reuse_limit: float = 10.0
    chunk_size: Size = 2 * _MIB
    max_views: int = 1024
    max_view_bytes: Size | None = None
    max_mappings: int = 2**18

    def __post_init__(self) -> None:
        for name in _SIZES:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, parse_bytes(getattr(self, name), what=name))
        for name in _COUNTS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
                raise ConfigError(f"{name} must be a whole number of at least 0, got {value!r}")
        limit = self.reuse_limit
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 1 <= limit <= 10**6:
            raise ConfigError(f"reuse_limit must be a number from 1 to 1000000, got {limit!r}")
        object.__setattr__(self, "reuse_limit", float(limit))
        chunk = parse_bytes(self.chunk_size)
        if chunk < 2 * _MIB or chunk % _MIB:
            raise ConfigError(f"chunk_size must be whole MiB and at least 2 MiB, got {format_bytes(chunk)}")
        if self.max_view_bytes == 0:
            raise ConfigError("max_view_bytes must be more than 0; write max_views=0 to stitch nothing")
