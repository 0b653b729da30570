"""The options of memlake's own policy ``lake``. All have good defaults."""

from __future__ import annotations

from dataclasses import dataclass

from memlake.errors import ConfigError
from memlake.policies.options import Options

__all__ = ["LakeOptions"]


@dataclass(frozen=True, kw_only=True)
class LakeOptions(Options):
    """memlake's own policy: it maps free memory to the addresses where a request needs it. All options have defaults.

    Attributes:
        may_alias: whether a chunk may be mapped at two addresses at once, which NVIDIA's devices can do. If False, the
            policy moves only whole chunks, and the host waits before it moves one.
    """

    may_alias: bool = True

    name = "lake"

    def __post_init__(self) -> None:
        if not isinstance(self.may_alias, bool):
            raise ConfigError(f"may_alias must be True or False, got {self.may_alias!r}")
