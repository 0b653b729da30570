"""The options of PyTorch's two allocators. The names are PyTorch's without ``_mb``, because sizes are in bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from memlake.errors import ConfigError
from memlake.policies.divisions import Divisions, to_table
from memlake.policies.options import Options
from memlake.units import Size, format_bytes, parse_bytes

__all__ = ["CachingOptions", "ExpandableOptions", "TorchOptions"]

_MIB = 2**20
_LARGE_SEGMENT = 20 * _MIB  # torch 2.13's default
_SMALLEST_LARGE_SEGMENT = 10 * _MIB  # torch 2.13 requires more; a request from this size on gets its own segment
_NO_DIVISIONS = (0,) * 16


@dataclass(frozen=True, kw_only=True)
class TorchOptions(Options):
    """The options that PyTorch's two allocators share. Sizes are ints or strings such as ``"128MiB"``, in whole MiB.

    Attributes:
        max_split_size: blocks of at least this size are never split; None: every block may be split.
        max_non_split_rounding: how much larger than the request such a block may be; None: `large_segment_size`.
        roundup_power2_divisions: the number of sizes between two powers of two; requests are rounded up to the next
            of them. One number, a list, or a mapping from sizes. Stored as 16 numbers, for 1 MiB, 2 MiB, ... 32 GiB and
            more. 0: off.
        garbage_collection_threshold: the share of the limit above which old free segments are released, between 0 and
            1; 0: off. PyTorch collects only if `memory_fraction` is below 1.
        large_segment_size: the size of segments for requests of 1 to 10 MiB, and of the pages of large expandable
            segments.
        memory_fraction: the share of the device that may be held, from 0 to 1: PyTorch's
            ``per_process_memory_fraction``.

    Raises:
        ConfigError: if PyTorch would refuse a value.
    """

    max_split_size: Size | None = field(default=None, metadata={"key": "max_split_size_mb"})
    max_non_split_rounding: Size | None = field(default=None, metadata={"key": "max_non_split_rounding_mb"})
    roundup_power2_divisions: Divisions = _NO_DIVISIONS
    garbage_collection_threshold: float = 0.0
    large_segment_size: Size = field(default=_LARGE_SEGMENT, metadata={"key": "large_segment_size_mb"})
    memory_fraction: float = field(default=1.0, metadata={"key": "per_process_memory_fraction"})

    def __post_init__(self) -> None:
        large = _whole_mib("large_segment_size", self.large_segment_size)
        if large <= _SMALLEST_LARGE_SEGMENT:
            raise ConfigError(f"large_segment_size must be more than 10 MiB, got {format_bytes(large)}")
        self._set("large_segment_size", large)
        for name in ("max_split_size", "max_non_split_rounding"):
            given = getattr(self, name)
            if given is None:
                continue
            nbytes = _whole_mib(name, given)
            if nbytes < large:
                raise ConfigError(
                    f"{name} must be at least large_segment_size, {format_bytes(large)}, got {format_bytes(nbytes)}"
                )
            self._set(name, nbytes)
        self._set("roundup_power2_divisions", to_table(self.roundup_power2_divisions))
        threshold = _number("garbage_collection_threshold", self.garbage_collection_threshold)
        if not 0 <= threshold < 1:
            raise ConfigError(f"garbage_collection_threshold must be between 0 and 1 (0: off), got {threshold:g}")
        self._set("garbage_collection_threshold", threshold)
        fraction = _number("memory_fraction", self.memory_fraction)
        if not 0 <= fraction <= 1:
            raise ConfigError(f"memory_fraction must be from 0 to 1, got {fraction:g}")
        self._set("memory_fraction", fraction)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the dataclass is frozen; only __post_init__ sets fields

    @property
    def is_expandable(self) -> bool:
        """Whether segments are expandable."""
        return False

    def limit_on(self, total_memory: int) -> int | None:
        """Returns the bytes that `memory_fraction` allows; None if it is 1, which means "no limit" in PyTorch."""
        return None if self.memory_fraction == 1 else int(self.memory_fraction * total_memory)

    def to_torch(self) -> str:
        """Returns the value of ``PYTORCH_ALLOC_CONF`` for these options, with the choice of the allocator."""
        return ",".join(filter(None, [f"expandable_segments:{self.is_expandable}", self.to_text()]))


@dataclass(frozen=True, kw_only=True)
class CachingOptions(TorchOptions):
    """PyTorch's native caching allocator of torch 2.13. The options are those of `TorchOptions`."""

    name = "caching"


@dataclass(frozen=True, kw_only=True)
class ExpandableOptions(TorchOptions):
    """PyTorch's expandable segments of torch 2.13. The options are those of `TorchOptions`."""

    name = "expandable"

    @property
    def is_expandable(self) -> bool:
        """Whether segments are expandable."""
        return True


def _whole_mib(name: str, size: Size) -> int:
    nbytes = parse_bytes(size, what=name)
    if nbytes % _MIB:
        raise ConfigError(f"{name} must be whole MiB, as PyTorch's {name}_mb, got {nbytes} bytes")
    return nbytes


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{name} must be a number, got {value!r}")
    return float(value)
