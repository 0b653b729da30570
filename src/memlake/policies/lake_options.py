"""The options of memlake's own policy. None needs setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from memlake.errors import ConfigError
from memlake.policies.options import Options

if TYPE_CHECKING:
    from memlake import _native

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
    summary = "memlake's own: chunks move, and free parts are borrowed, when memory is short"

    def __post_init__(self) -> None:
        if not isinstance(self.may_alias, bool):
            raise ConfigError(f"may_alias must be True or False, got {self.may_alias!r}")

    def to_native(self) -> _native.LakeOptions:
        """The settings as the core takes them; on several devices the pool adds the placement."""
        from memlake import _native

        native = _native.LakeOptions()
        native.may_alias = self.may_alias
        return native

    def to_text(self) -> str:
        """The settings that are not the default; empty if all are."""
        return "" if self.may_alias else "may_alias:False"
