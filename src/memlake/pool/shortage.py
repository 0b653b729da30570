"""Why a pool has no memory for a request, in numbers and in a sentence. The core makes all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Shortage"]


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """What a pool knew when it had to refuse a request. All sizes in bytes.

    Attributes:
        asked: the request.
        rounded: what its policy makes of it.
        limit: what the pool may hold: the smallest of its limit, its max_size, the memory fraction and the device.
        held: physical memory of the pool.
        held_on_host: what it has on the host beside that.
        live: blocks in use, with slack.
        pending: freed, but some stream may still use it.
        free: cached in the pool, on any stream.
        free_for_it: of that, what this request could use: PyTorch's policies keep small and large requests, and the
            streams, apart.
        largest_contiguous: the largest free block.
        largest_usable: the largest free block of the request's stream.
        largest_stitchable: the most that the policy could have shown in one range for this request: free memory that
            it can use, moved or stitched if it does that, and new memory. It is as large as the request only where
            something else was the reason: addresses, a wait, or a driver that refused.
        device_total, device_free: of the device, all programs counted; of the host if the pool's memory lies there.
        held_by_other_pools: what other pools of this process hold of the same devices. An upper bound if one of them
            has several devices.
        held_elsewhere: what other processes hold of them, and this process without a pool.
        pending_on: how many bytes wait for which stream (handle).
        tried: what was tried, in order.
        policy: the name of the policy.
        page: the policy takes memory from the driver in multiples of this for such a request.
        location: where the pool's memory lies.
        has_no_addresses: True if not memory was missing, but a range of addresses to map it to.
        reason: in one word: ``"addresses"``, ``"limit"``, ``"pages"``, ``"contiguous"``, ``"pending"`` or
            ``"physical"``.
        binds: who would have to give way: ``"limit"``, ``"max_size"``, ``"memory_fraction"``, ``"device"``,
            ``"other_pools"``, ``"elsewhere"``; ``"nothing"`` where there is enough memory.
        hint: what to do about it.
        text: the whole story, in a few sentences.
    """

    asked: int
    rounded: int
    limit: int
    held: int
    held_on_host: int
    live: int
    pending: int
    free: int
    free_for_it: int
    largest_contiguous: int
    largest_usable: int
    largest_stitchable: int
    device_total: int
    device_free: int
    held_by_other_pools: int
    held_elsewhere: int
    pending_on: dict[int, int]
    tried: tuple[str, ...]
    policy: str
    page: int
    location: str
    has_no_addresses: bool
    reason: str
    binds: str
    hint: str
    text: str

    @classmethod
    def of(cls, native: dict[str, Any]) -> Shortage:
        """From what the core answers."""
        return cls(**native)

    def to_text(self) -> str:
        """The whole story, in a few sentences."""
        return self.text
