"""Failures: why a replay ran out of memory, in numbers and in a sentence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memlake.trace import Trace

__all__ = ["Failure"]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The first request of a replay that found no memory, and the pool at that moment. Sizes are bytes.

    Attributes:
        row: the request's row in the trace, from 0.
        step: the number of the step that the row is in; None before the first step, and in a trace without steps.
        tag: the code that made the request, from the trace; empty if the trace does not name it.
        reason: ``"no physical memory"`` (too little is free), ``"no contiguous range"`` (enough is free, but not in one
            piece that the request may use, or not in the whole pages that the policy takes), ``"pending on a stream"``
            (enough is freed, but another stream may still use it), ``"limit"`` (the device has enough, but the limit is
            reached) or ``"no addresses"`` (no range of addresses is left to map memory to).
        requested: the requested size.
        stream: the stream of the request.
        held: the physical memory that the pool held after it had released what it could.
        allocated: the held bytes in live blocks.
        pending: the held bytes in freed blocks that a stream may still use.
        free: the held bytes in free blocks.
        largest_free: the largest free block; 0 with the policy `driver`, which does not tell it.
        largest_usable: the largest free block that the request's stream may use.
        capacity: the memory of the device.
        limit: the most that the pool may hold; None if only the device limits it.
    """

    row: int
    step: int | None
    tag: str
    reason: str
    requested: int
    stream: int
    held: int
    allocated: int
    pending: int
    free: int
    largest_free: int
    largest_usable: int
    capacity: int
    limit: int | None

    @classmethod
    def from_picture(cls, picture: Mapping[str, Any], trace: Trace, capacity: int, limit: int | None) -> Failure:
        """Makes the object from the core's report of the failure, and adds the step and the tag from the trace."""
        row = int(picture["row"])
        return cls(
            **picture,
            step=next((step.number for step in trace.steps if step.start <= row < step.stop), None),
            tag=trace[row].tag,
            capacity=capacity,
            limit=limit,
        )

    @property
    def where(self) -> str:
        """``"row 1234 (step 2)"``."""
        return f"row {self.row}" + ("" if self.step is None else f" (step {self.step})")

    @property
    def sentence(self) -> str:
        """The request and the reason of the failure, as text."""
        asked = f"at {self.where} {format_bytes(self.requested)} are asked for"
        by = f" by {self.tag}" if self.tag else ""
        return f"{asked}{by}, {self._why()}"

    @property
    def is_limited(self) -> bool:
        """Whether the limit of the pool, and not the device, sets the most that the pool may hold."""
        return self.limit is not None and self.limit < self.capacity

    def _why(self) -> str:
        left = self._left()
        limit = format_bytes(self.limit or 0)
        if self.reason == "no contiguous range" and not self.free:
            of = f"that the limit of {limit} leaves" if self.is_limited else "that are left"
            return f"but of the {format_bytes(left)} {of} the policy takes only whole pages"
        if self.reason == "no contiguous range":
            # 0 is also what the policy `driver` says, which does not tell the pieces.
            most = f"no more than {format_bytes(self.largest_usable)} of that is" if self.largest_usable else "not"
            source = f"the limit of {limit} allows" if self.is_limited else "the driver has"
            more = f", and {source} {format_bytes(left)} more" if left else ""
            return (
                f"{format_bytes(self.free)} are held and free, but {most} in one piece that stream "
                f"{self.stream} may use{more}"
            )
        if self.reason == "pending on a stream":
            return "which are free only when another stream has passed, too late for this policy"
        if self.reason == "no addresses":
            return "but no range of addresses is left to map them to, whatever memory there is"
        if self.reason == "limit":
            return f"but {format_bytes(self.allocated)} are in use already and the limit is {limit}"
        in_use = format_bytes(self.allocated + self.pending)
        within = f" within the limit of {limit}" if self.is_limited else ""
        return f"but {in_use} are in use already and {format_bytes(self.free + left)} are left{within}"

    def _left(self) -> int:
        """Returns how many bytes the pool could still create."""
        budget = self.capacity if self.limit is None else min(self.limit, self.capacity)
        return max(budget - self.held, 0)

    def to_json(self) -> dict[str, Any]:
        """Returns all fields as a dict of numbers and strings, with the sentence."""
        return asdict(self) | {"sentence": self.sentence}
