"""The options of the policy ``driver``: CUDA's own memory pools."""

from __future__ import annotations

from dataclasses import dataclass

from memlake.errors import ConfigError
from memlake.policies.options import Options

__all__ = ["DriverOptions"]

_RULES = ("reuse_follow_event_dependencies", "reuse_allow_opportunistic", "reuse_allow_internal_dependencies")


@dataclass(frozen=True, kw_only=True)
class DriverOptions(Options):
    """CUDA's stream-ordered memory pools. Each memlake pool has one CUDA pool: a request calls
    ``cuMemAllocFromPoolAsync``, a free calls ``cuMemFreeAsync``.

    A pool's `max_size` becomes CUDA's ``maxSize`` (it needs the driver of CUDA 12.2 or later). The driver applies its
    `release_threshold` when it sees a synchronisation. Its `limit` limits the live bytes. On the emulator the figures
    are approximate, because NVIDIA does not publish how its driver splits and caches memory.

    Attributes:
        reuse_follow_event_dependencies: whether another stream may reuse freed memory if events order that stream
            behind the free.
        reuse_allow_opportunistic: whether another stream may reuse freed memory if the free has already run.
        reuse_allow_internal_dependencies: whether the driver may make another stream wait for the free, when there is
            no other memory.

    Raises:
        ConfigError: if a value is invalid.
    """

    name = "driver"

    reuse_follow_event_dependencies: bool = True
    reuse_allow_opportunistic: bool = True
    reuse_allow_internal_dependencies: bool = True

    def __post_init__(self) -> None:
        for rule in _RULES:
            if not isinstance(getattr(self, rule), bool):
                raise ConfigError(f"{rule} must be True or False, got {getattr(self, rule)!r}")
