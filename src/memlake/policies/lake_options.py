"""The options of memlake's own policy. None needs setting."""

from __future__ import annotations

from dataclasses import dataclass

from memlake.errors import ConfigError
from memlake.policies.options import Options

__all__ = ["LakeOptions"]


@dataclass(frozen=True, kw_only=True)
class LakeOptions(Options):
    """Memory that moves to where it is needed. Nothing has to be set.

    Attributes:
        may_alias: whether a chunk may be mapped at two places at once. NVIDIA's devices can; where it is False, whole
            chunks are moved only, and the host waits before it moves one.
    """

    may_alias: bool = True

    name = "lake"

    def __post_init__(self) -> None:
        if not isinstance(self.may_alias, bool):
            raise ConfigError(f"may_alias must be True or False, got {self.may_alias!r}")
