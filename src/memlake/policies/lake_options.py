"""The options of memlake's own policy ``lake``. All have good defaults."""

from __future__ import annotations

from dataclasses import dataclass

from memlake.errors import ConfigError
from memlake.policies.options import Options

__all__ = ["LakeOptions"]

_LEVELS = ("auto", "none", "whole", "prefix")


@dataclass(frozen=True, kw_only=True)
class LakeOptions(Options):
    """memlake's own policy: it maps free memory to the addresses where a request needs it. All options have defaults.

    Attributes:
        aliasing: how a chunk may be mapped a second time while its first mapping exists. ``"none"``: not at all; the
            policy moves whole chunks, and the host waits before it moves a chunk that a stream may still use.
            ``"whole"``: only a whole chunk. ``"prefix"``: also the first part of a chunk. ``"auto"``: the highest level
            that is proven on all devices of the pool. On a real device no level above ``"none"`` is proven yet; an
            emulated device allows what it was configured with; a replay uses ``"none"``. If a driver refuses a second
            mapping, the pool lowers its level and goes on. ``Pool.stats().aliasing`` has the level in force.
    """

    aliasing: str = "auto"

    name = "lake"

    def __post_init__(self) -> None:
        if self.aliasing not in _LEVELS:
            raise ConfigError(f"aliasing must be {', '.join(_LEVELS[:-1])} or {_LEVELS[-1]}, got {self.aliasing!r}")
