"""Histories: how much of a job's life a trace records, and which questions it can therefore decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["KINDS", "History"]

KINDS = ("complete", "warm", "cut", "state")
"""What a history can be: from the first allocation on; begun with memory in use; without lost events; no events."""


@dataclass(frozen=True, kw_only=True)
class History:
    """How much of a job's life a trace records.

    Attributes:
        kind: ``"complete"``: from the first allocation on. ``"warm"``: the recording began when memory was in use.
            ``"cut"``: older events were lost, because the ring of events was full. ``"state"``: there are no events,
            only the memory at one moment.
        reason: how the kind is known, as text; empty for a complete history.
        held_before: the bytes that the program's allocator held when the history begins; for ``"state"``, at the
            moment of the snapshot.
        live_before: the bytes of these that were in use.
        largest_free: the largest free block at the moment of the snapshot; 0 if it is not known.
    """

    kind: str = "complete"
    reason: str = ""
    held_before: int = 0
    live_before: int = 0
    largest_free: int = 0

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> History:
        """Reads the history from the metadata of a trace. A trace that does not mention it is complete."""
        given = metadata.get("history")
        if not isinstance(given, dict) or given.get("kind") not in KINDS:
            return cls()
        numbers = {name: _size(given.get(name)) for name in ("held_before", "live_before", "largest_free")}
        return cls(kind=given["kind"], reason=str(given.get("reason", ""))[:1000], **numbers)

    @property
    def text(self) -> str:
        """Its kind and how it is known."""
        return f"{self.kind}: {self.reason}" if self.reason else self.kind

    def to_json(self) -> dict[str, Any]:
        """Returns all fields as a dict."""
        return {
            "kind": self.kind,
            "reason": self.reason,
            "held_before": self.held_before,
            "live_before": self.live_before,
            "largest_free": self.largest_free,
        }

    def can_tell_that_it_fits(self, capacity: int) -> bool:
        """Whether a replay in which every request finds memory shows that the job fits on a device.

        A complete history shows it. A state never does. A history whose beginning is missing shows it if the device has
        at least as much memory as the job's own allocator held at that moment: then the missing part needed no more.
        """
        if self.kind == "state":
            return False
        return self.kind == "complete" or capacity >= self.held_before

    @property
    def sentence(self) -> str:
        """What the history is and what it cannot tell, as text; empty for a complete history."""
        held, live = format_bytes(self.held_before), format_bytes(self.live_before)
        if self.kind == "state":
            piece = f"; the largest free piece has {format_bytes(self.largest_free)}" if self.largest_free else ""
            return (
                f"The file has no history ({self.reason}): it shows the memory at one moment. PyTorch held {held}, of "
                f"which {live} were in use{piece}. What the job needed before that moment is not known."
            )
        if self.kind == "warm":
            return (
                f"The history begins with memory in use ({self.reason}): PyTorch held {held}, of which {live} were in "
                "use. A replay places that anew. The figures are those of the recorded part; what the job needed "
                "before it is not known."
            )
        if self.kind == "cut":
            return (
                f"The beginning of the history is lost ({self.reason}): the rest begins when PyTorch held {held}, of "
                f"which {live} were in use. A replay places that anew. The figures are those of the rest; what the job "
                "needed before it is not known. Record again with a larger max_entries."
            )
        return ""


def _size(value: object) -> int:
    return value if type(value) is int and 0 <= value < 2**63 else 0
