"""The options of the policy ``driver``: CUDA's own memory pools."""

from __future__ import annotations

from dataclasses import dataclass

from memlake.errors import ConfigError
from memlake.policies.options import Options

__all__ = ["DriverOptions"]

_RULES = ("reuse_follow_event_dependencies", "reuse_allow_opportunistic", "reuse_allow_internal_dependencies")


@dataclass(frozen=True, kw_only=True)
class DriverOptions(Options):
    """CUDA's stream-ordered memory pools: every request is ``cuMemAllocFromPoolAsync`` on a pool of its own, every free
    ``cuMemFreeAsync``. Leave it to the driver.

    A pool's `max_size` becomes CUDA's ``maxSize`` (which needs a driver from CUDA 12.2 on), its `release_threshold`
    acts where the driver sees a synchronisation, and its `limit` is on what is live. On the emulator its figures are
    approximate: how NVIDIA's driver cuts and keeps memory is not published.

    Attributes:
        reuse_follow_event_dependencies: whether another stream may have freed memory when events order it behind the
            free.
        reuse_allow_opportunistic: whether it may have it when the free has happened.
        reuse_allow_internal_dependencies: whether the driver may make it wait for the free, where there is no other
            memory.

    Raises:
        ConfigError: if a value makes no sense.
    """

    name = "driver"

    reuse_follow_event_dependencies: bool = True
    reuse_allow_opportunistic: bool = True
    reuse_allow_internal_dependencies: bool = True

    def __post_init__(self) -> None:
        for rule in _RULES:
            if not isinstance(getattr(self, rule), bool):
                raise ConfigError(f"{rule} must be True or False, got {getattr(self, rule)!r}")
