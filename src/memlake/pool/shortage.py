"""Shortages: why a pool has no memory for a request, in numbers and in text. The core computes all values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Shortage"]


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """The state of a pool when it refused a request. All sizes are in bytes.

    Attributes:
        asked: the requested size.
        rounded: the size after the policy's rounding.
        limit: the most that the pool may hold: the smallest of its limit, its max_size, the memory fraction and the
            device's memory.
        held: the physical memory of the pool.
        held_on_host: the memory that it holds on the host in addition to `held`.
        live: live blocks, with slack.
        pending: freed blocks that a stream may still use.
        kept_for_graphs: free blocks of graph pools, which their graphs use at every launch; without the graph pool of
            the request.
        free: the other free blocks of the pool, of all streams.
        free_for_it: the part of `free` that this request could use. PyTorch's policies separate small from large
            requests, and the streams from each other.
        largest_contiguous: the largest free block; 0 with the policy `driver`, which does not tell it.
        largest_usable: the largest free block of the request's stream.
        largest_stitchable: the largest contiguous range that the policy could have made for this request from usable
            free memory (moved or stitched, if the policy can do that) and new memory. It reaches the size of the
            request only if memory was not the reason of the shortage, but addresses, a wait, or the driver's refusal.
        device_total, device_free: the memory of the device, and the part that no process uses; those of the host if the
            pool's memory is there.
        held_by_other_pools: the bytes that other pools of this process hold on the same devices.
        held_elsewhere: the bytes on these devices that other processes hold, or this process without a pool.
        pending_on: the pending bytes by the handle of the stream that they wait for.
        tried: the attempts, in order.
        policy: the name of the policy.
        page: for such a request the policy creates memory in multiples of this size.
        location: the location of the pool's memory.
        has_no_addresses: True if there was memory, but no free range of addresses to map it to.
        reason: in one word: ``"addresses"``, ``"limit"``, ``"pages"``, ``"contiguous"``, ``"pending"`` or
            ``"physical"``.
        binds: the limit or user of memory that has to change: ``"limit"``, ``"max_size"``, ``"memory_fraction"``,
            ``"device"``, ``"other_pools"``, ``"elsewhere"``; ``"nothing"`` if there is enough memory.
        hint: what to do.
        text: the whole report, in a few sentences.
    """

    asked: int
    rounded: int
    limit: int
    held: int
    held_on_host: int
    live: int
    pending: int
    kept_for_graphs: int
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
        """Makes the object from the dict of the core."""
        return cls(**native)

    def to_text(self) -> str:
        """Returns the whole report, in a few sentences."""
        return self.text
