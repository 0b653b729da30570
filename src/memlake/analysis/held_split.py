"""What the memory that PyTorch held at the moment of a snapshot was: in use, lost to rounding, free, and why free."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from memlake.trace import RecordedSegment, Trace

__all__ = ["HeldPart", "HeldSplit", "split_held"]

# PyTorch maps expandable segments in pages of these sizes: kSmallBuffer and kLargeBuffer.
_SMALL_PAGE, _LARGE_PAGE = 2 * 2**20, 20 * 2**20
_KNOWS_REQUESTS = (2, 0)


class HeldPart(NamedTuple):
    """One part of the held memory: its name, its bytes (None if the file does not tell) and what it is."""

    name: str
    nbytes: int | None
    meaning: str


@dataclass(frozen=True, kw_only=True)
class HeldSplit:
    """The parts of the held memory at the moment of the snapshot, in bytes. With `not_in_blocks` they are `held`.

    Attributes:
        held: all segments; PyTorch calls it *reserved*.
        allocated: the blocks in use, rounding included.
        pending: blocks that were freed, but that a stream may still use.
        external: free pieces between blocks in use, outside private pools. PyTorch cannot give them to the driver.
        cached: free memory outside private pools that PyTorch could give to the driver: whole free segments, and whole
            free pages of expandable segments.
        in_private_pools: free memory in private pools. Requests outside a pool cannot have it.
        requested: the part of `allocated` that the program asked for; None if the file does not tell.
        largest_free: the largest free piece outside private pools; 0 if there is none.
        num_segments: the number of segments.
    """

    held: int
    allocated: int
    pending: int
    external: int
    cached: int
    in_private_pools: int
    requested: int | None
    largest_free: int
    num_segments: int

    @property
    def not_in_blocks(self) -> int:
        """The part of `held` that no block has: 0 unless the segments and blocks of the file contradict each other."""
        return self.held - self.allocated - self.pending - self.external - self.cached - self.in_private_pools

    @property
    def rounding(self) -> int | None:
        """The part of `allocated` that the program did not ask for; None if the file does not tell."""
        return None if self.requested is None else self.allocated - self.requested

    @property
    def parts(self) -> tuple[HeldPart, ...]:
        """What `held` consists of, in the order of the report. The sum of the known parts is `held`."""
        in_use = self.allocated if self.requested is None else self.requested
        parts = [
            HeldPart("in use", in_use, "rounding included" if self.requested is None else "what the program asked for"),
            HeldPart("rounding", self.rounding, "in blocks in use, not asked for"),
            HeldPart("external", self.external, "free pieces between blocks in use"),
            HeldPart("pending", self.pending, "freed, but a stream may still use it"),
            HeldPart("cached", self.cached, "free, and PyTorch can give it back to the driver"),
            HeldPart("private pools", self.in_private_pools, "free in private pools, which other requests cannot have"),
        ]
        if self.not_in_blocks:
            parts.append(HeldPart("contradiction", self.not_in_blocks, "in segments, but in no block of the file"))
        return tuple(parts)

    def to_json(self) -> dict[str, Any]:
        """Returns all fields as a dict."""
        return asdict(self) | {"rounding": self.rounding, "not_in_blocks": self.not_in_blocks}


def split_held(trace: Trace) -> HeldSplit | None:
    """Splits the memory at the end of a trace; None if the trace does not have the segments of PyTorch."""
    recorded = trace.recorded
    if recorded is None:
        return None
    allocated = pending = external = cached = in_pools = requested = largest = 0
    is_known = True
    for segment in recorded.final:
        is_free = all(block.state == "free" for block in segment.blocks)
        for block in segment.blocks:
            if block.state == "live":
                allocated += block.nbytes
                requested += block.requested
                is_known &= 0 < block.requested <= block.nbytes
            elif block.state == "pending":
                pending += block.nbytes
            elif segment.pool != (0, 0):
                in_pools += block.nbytes
            else:
                largest = max(largest, block.nbytes)
                pages = block.nbytes if is_free else _whole_pages(segment, block.address, block.nbytes)
                cached += pages
                external += block.nbytes - pages
    # A file that lacks the requested sizes is read as if each block had been asked for as it is.
    if requested == allocated and not trace.settings.torch.is_from(_KNOWS_REQUESTS):
        is_known = False
    return HeldSplit(
        held=sum(segment.nbytes for segment in recorded.final),
        allocated=allocated,
        pending=pending,
        external=external,
        cached=cached,
        in_private_pools=in_pools,
        requested=requested if is_known and allocated else None,
        largest_free=largest,
        num_segments=len(recorded.final),
    )


def _whole_pages(segment: RecordedSegment, address: int, nbytes: int) -> int:
    """Returns the bytes of the whole pages of an expandable segment that a free block covers; else 0."""
    if not segment.is_expandable:
        return 0
    page = _SMALL_PAGE if segment.kind == "small" else _LARGE_PAGE
    begin = -(-(address - segment.address) // page)
    end = (address + nbytes - segment.address) // page
    return max(end - begin, 0) * page
