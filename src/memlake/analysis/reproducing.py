"""Reproductions: how well a replay of what the job ran under reproduces the job's own record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memlake.errors import ConfigError
from memlake.replaying.verifying import verify

if TYPE_CHECKING:
    from memlake.trace import Trace, Verification

__all__ = ["Reproduction", "reproduce"]


@dataclass(frozen=True)
class Reproduction:
    """Whether the replay of what the job ran under matches the file.

    Attributes:
        verification: the comparison of the replay with the record; None if they cannot be compared.
        obstacle: why they cannot be compared; empty if they were.
    """

    verification: Verification | None
    obstacle: str = ""

    @property
    def is_exact(self) -> bool:
        """True if addresses were compared, and all of them, all segments and all blocks are equal."""
        return self.verification is not None and self.verification.num_allocations > 0 and self.verification.is_exact

    @property
    def sentence(self) -> str:
        """The result in one line."""
        if self.verification is None:
            return f"Not verified: {self.obstacle}; the figures are estimates."
        return self.verification.sentence

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as a dict."""
        if self.verification is None:
            return {"is_exact": False, "obstacle": self.obstacle, "sentence": self.sentence}
        return self.verification.to_json()


def reproduce(trace: Trace) -> Reproduction | None:
    """Replays a snapshot under its own settings and compares the replay with the record. None: it is no snapshot."""
    if trace.settings.memlake:
        return Reproduction(None, "the job ran under memlake, whose addresses a replay does not repeat")
    if trace.settings.policy is None:
        return None
    if trace.history.kind == "state":
        return Reproduction(None, "the file has no history")
    if trace.recorded is None:
        return Reproduction(None, "the file does not have the addresses of the job's own allocator")
    try:
        return Reproduction(verify(trace, policy=trace.settings.policy))
    except ConfigError as error:
        return Reproduction(None, str(error))
