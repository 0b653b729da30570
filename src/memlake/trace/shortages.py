"""Recorded shortages: the requests for which the program's own allocator had no memory.

A trace has such a request as an `Op.ALLOCATE` row, followed by its `Op.FREE`: a replay must find memory for it, as the
program's own allocator could not.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RecordedShortage"]


@dataclass(frozen=True, kw_only=True)
class RecordedShortage:
    """A request for which the program's own allocator had no memory. Sizes are bytes.

    Attributes:
        row: the row of the request in the trace.
        requested: the size of the request, rounded as PyTorch rounds it.
        stream: the number of its stream in the trace.
        device_free: the free memory of the device, as the driver reported it; None if it was not recorded.
        held: the memory that the allocator held then, after it had released what it could.
        live: the memory of these that was in use.
        is_last: True if the program made no request after it.
    """

    row: int
    requested: int
    stream: int
    device_free: int | None
    held: int
    live: int
    is_last: bool

    @classmethod
    def all_of(cls, metadata: Mapping[str, Any]) -> tuple[RecordedShortage, ...]:
        """Reads the shortages from the metadata of a trace. Entries that are damaged are left out."""
        listed = metadata.get("shortages")
        return tuple(cls(**one) for one in listed if _is_whole(one)) if isinstance(listed, list) else ()

    def to_json(self) -> dict[str, Any]:
        """Returns all fields as a dict."""
        return asdict(self)

    @property
    def capacity(self) -> int | None:
        """The memory that the device had for this program: held and free. None if the free memory is not known."""
        return None if self.device_free is None else self.held + self.device_free

    @property
    def is_scattered(self) -> bool:
        """True if enough memory was free, in the allocator and on the device together, but not in one piece."""
        return self.held - self.live + (self.device_free or 0) >= self.requested

    @property
    def is_limited(self) -> bool:
        """True if the device alone had enough free memory: then a limit, such as a memory fraction, refused it."""
        # PyTorch takes 2 MiB from the driver for a request of up to 1 MiB, and at most whole 20 MiB for larger ones.
        page = (2 if self.requested <= 2**20 else 20) * 2**20
        piece = -(-self.requested // page) * page
        return self.device_free is not None and self.device_free >= piece

    @property
    def sentence(self) -> str:
        """What happened, as text."""
        free = "" if self.device_free is None else f", and the driver had {format_bytes(self.device_free)} free"
        why = ""
        if self.is_limited:
            why = " The driver had enough, so a limit of the process, or of its memory pool, refused the request."
        elif self.is_scattered:
            why = " Together that would have been enough, but not in one piece that the request may use."
        return (
            f"PyTorch ran out of memory at row {self.row}: it asked for {format_bytes(self.requested)}, held "
            f"{format_bytes(self.held)} of which {format_bytes(self.live)} were in use{free}.{why}"
        )


def _is_whole(one: object) -> bool:
    if not isinstance(one, dict) or set(one) != set(RecordedShortage.__dataclass_fields__):
        return False
    numbers = [one[name] for name in ("row", "requested", "stream", "held", "live")]
    free = one["device_free"]
    return (
        all(type(number) is int and 0 <= number < 2**63 for number in numbers)
        and (free is None or (type(free) is int and 0 <= free < 2**63))
        and type(one["is_last"]) is bool
    )
