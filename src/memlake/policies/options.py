"""What the options of every policy have in common, and those of the policy that has none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from memlake import _native

__all__ = ["DirectOptions", "Options"]


class Options(ABC):
    """One policy with its settings: immutable, and equal if all settings are."""

    name: ClassVar[str]
    """What the policy is called."""
    summary: ClassVar[str]
    """What the policy is, in one line."""
    is_approximate: ClassVar[bool] = False
    """Whether its figures on the emulator are not those of the real thing. Then its driver time is not modelled, and
    comparisons show it only when it is asked for."""

    @abstractmethod
    def to_native(
        self,
    ) -> _native.TorchOptions | _native.LakeOptions | _native.StitchOptions | _native.DriverOptions | None:
        """The settings as the core takes them; None for the policy without a pool."""

    @abstractmethod
    def to_text(self) -> str:
        """The settings that are not the default, for PyTorch's policies in PyTorch's syntax; empty if all are."""

    def limit_on(self, total_memory: int) -> int | None:
        """What the settings let a pool hold at most on a device of this size; None if they set no limit."""
        return None

    @property
    def label(self) -> str:
        """The name, with the settings behind it if there are any: for tables."""
        text = self.to_text()
        return f"{self.name} ({text})" if text else self.name


@dataclass(frozen=True, kw_only=True)
class DirectOptions(Options):
    """No pool: one driver allocation per request, one driver free per free. The naive baseline; nothing to set."""

    name = "direct"
    summary = "no pool: one driver call per request and per free"

    def to_native(self) -> None:
        """None: the core has nothing to be told."""

    def to_text(self) -> str:
        """Always empty."""
        return ""
