"""The verdict of a recorded shortage: why PyTorch had no memory for a request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memlake.analysis.free_pieces import free_pieces_at, pending_at
from memlake.replaying.gpus import CONTEXT_RESERVE
from memlake.trace import Op
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.trace import RecordedShortage, Trace

__all__ = ["VERDICTS", "ShortageVerdict", "judge_shortage"]

VERDICTS = {
    "limit": "a limit: the driver had enough, but the process or its memory pool was not allowed more",
    "scattered": "enough but scattered: the free memory together would have sufficed, no piece of it did",
    "pending": "waiting for a stream: memory that was freed, but that a stream could still use, would have sufficed",
    "private pool": "stuck in a private pool: free memory of other memory pools would have sufficed",
    "outside": "memory outside PyTorch: other processes, the CUDA context or libraries have what is missing",
    "no memory": "no memory at all: all that was free or waiting would not have sufficed",
    "unknown": "unknown: the file does not have what decides it",
}
"""What a verdict means, by its name."""


@dataclass(frozen=True, kw_only=True)
class ShortageVerdict:
    """Why PyTorch had no memory for a request. Sizes are bytes.

    Attributes:
        kind: a key of `VERDICTS`.
        shortage: the request, and what PyTorch held and had in use.
        free: free memory in the pool of the request, in pieces. It may be less by up to 1 MiB per block in use: the
            rest of a block that PyTorch did not split is counted as free.
        largest_free: the largest of these pieces on the stream of the request; None if the file does not tell.
        pending: memory that was freed, but that a stream could still use.
        in_other_pools: free memory in other pools, which the request could not have.
        outside: the memory of the device that neither PyTorch held nor the driver had free; None if the memory of the
            device is not known.
        reserve: the part of `outside` that is counted for the CUDA context, and not as taken by others.
    """

    kind: str
    shortage: RecordedShortage
    free: int
    largest_free: int | None
    pending: int
    in_other_pools: int
    outside: int | None
    reserve: int = CONTEXT_RESERVE

    @property
    def sentence(self) -> str:
        """What happened and why, as text."""
        shortage = self.shortage
        driver = shortage.device_free
        parts = [f"{format_bytes(shortage.live)} in use", f"{format_bytes(self.free)} free"]
        if self.largest_free is not None and self.free:
            parts[-1] += f" in pieces of at most {format_bytes(self.largest_free)} for its stream"
        if self.pending:
            parts.append(f"{format_bytes(self.pending)} waiting for streams")
        if self.in_other_pools:
            parts.append(f"{format_bytes(self.in_other_pools)} free in other memory pools")
        had = "the free memory of the driver is not in the file" if driver is None else ""
        had = had or f"the driver had {format_bytes(driver or 0)} more"
        if self.outside is not None:
            had += f", and {format_bytes(self.outside)} of the device were outside PyTorch"
            if self.reserve:
                had += f", of which {format_bytes(self.reserve)} are counted for the CUDA context"
        end = "" if shortage.is_last else " The job went on after it."
        return (
            f"PyTorch ran out of memory at row {shortage.row}: it asked for {format_bytes(shortage.requested)} and "
            f"held {format_bytes(shortage.held)} ({', '.join(parts)}); {had}. Verdict: {VERDICTS[self.kind]}.{end}"
        )

    def to_json(self) -> dict[str, Any]:
        """Returns all figures as a dict."""
        return self.shortage.to_json() | {
            "verdict": self.kind,
            "free": self.free,
            "largest_free": self.largest_free,
            "pending": self.pending,
            "in_other_pools": self.in_other_pools,
            "outside": self.outside,
            "reserve": None if self.outside is None else self.reserve,
            "sentence": self.sentence,
        }


def judge_shortage(trace: Trace, capacity: int | None = None, reserve: int = CONTEXT_RESERVE) -> ShortageVerdict | None:
    """Returns the verdict of the last shortage of a trace; None if it has none.

    Args:
        trace: the trace of a snapshot.
        capacity: the memory of the whole device in bytes, if it is known. A snapshot does not have it.
        reserve: the bytes of it that the CUDA context takes.
    """
    shortage = trace.oom
    if shortage is None:
        return None
    pending = _pending(trace, shortage)
    free = max(shortage.held - shortage.live - pending, 0)
    largest: int | None = None
    elsewhere = 0
    pieces = free_pieces_at(trace, shortage.row)
    if pieces is not None:
        own = _pool_of(trace, shortage)
        # A segment whose pool is not in the file is counted for the request, so that no pool is blamed without proof.
        usable = [piece for piece in pieces if piece.pool in (own, None)]
        elsewhere = sum(piece.nbytes for piece in pieces if piece.pool not in (own, None))
        free = sum(piece.nbytes for piece in usable)
        largest = max((piece.nbytes for piece in usable if piece.stream == shortage.stream), default=0)
    outside = None
    if capacity is not None and shortage.capacity is not None and capacity >= shortage.capacity:
        outside = capacity - shortage.capacity
    others = None if outside is None else outside - reserve
    kind = _kind(shortage, free, pending, elsewhere, others)
    if pieces is None and kind == "scattered":
        # The free memory may include that of private pools, which the request could not have.
        certain = max(free - trace.free_in_private_pools, 0)
        kind = kind if _kind(shortage, certain, pending, elsewhere, others) == kind else "unknown"
    return ShortageVerdict(
        kind=kind,
        shortage=shortage,
        free=free,
        largest_free=largest,
        pending=pending,
        in_other_pools=elsewhere,
        outside=outside,
        reserve=reserve,
    )


def _kind(shortage: RecordedShortage, free: int, pending: int, elsewhere: int, others: int | None) -> str:
    if shortage.is_limited:
        return "limit"
    missing = shortage.requested - free - (shortage.device_free or 0)
    if missing <= 0:
        return "scattered"
    if pending >= missing:
        return "pending"
    if elsewhere >= missing:
        return "private pool"
    if pending + elsewhere >= missing:
        return "pending" if pending >= elsewhere else "private pool"
    if shortage.device_free is None:
        return "unknown"
    if others is not None and others + pending + elsewhere >= missing:
        return "outside"
    return "no memory"


def _pending(trace: Trace, shortage: RecordedShortage) -> int:
    sizes = trace.bytes[trace.op == Op.ALLOCATE.value]
    return sum(-(-nbytes // 512) * 512 for nbytes in sizes[pending_at(trace, shortage.row)].tolist())


def _pool_of(trace: Trace, shortage: RecordedShortage) -> tuple[int, int]:
    """Returns the memory pool of the request. Only torch 2.12 and later record it; else it is the default pool."""
    label = None if trace.context is None else trace.context.labels.get("pool_id")
    match = re.fullmatch(r"\((\d{1,20}), (\d{1,20})\)", label[shortage.row]) if label is not None else None
    return (int(match[1]), int(match[2])) if match else (0, 0)
