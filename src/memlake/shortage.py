"""Why a pool has no memory for a request, in numbers and in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memlake.units import format_bytes

__all__ = ["Shortage"]

_STEPS = {
    "new_segment": "a new segment",
    "new_addresses": "new addresses",
    "map": "more pages",
    "wait_for_events": "waiting for all streams",
    "release": "giving cached memory back",
    "wait_on_device": "letting streams wait on the device",
    "gather": "gathering free memory",
}


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """What a pool knew when it had to refuse a request. All sizes in bytes.

    Attributes:
        asked: the request.
        rounded: what its policy makes of it.
        limit: what the pool may hold: its limit, or the device's memory.
        held: physical memory of the pool.
        live: blocks in use, with slack.
        pending: freed, but some stream may still use it.
        free: cached in the pool, on any stream.
        free_for_it: of that, what this request could use: PyTorch's policies keep small and large requests, and the
            streams, apart.
        largest_contiguous: the largest free block.
        largest_stitchable: what there would be in one range if all free memory, and what may still be added, were
            stitched.
        device_total, device_free: of the device, all programs counted.
        pending_on: how many bytes wait for which stream (handle).
        tried: what was tried, in order.
    """

    asked: int
    rounded: int
    limit: int
    held: int
    live: int
    pending: int
    free: int
    free_for_it: int
    largest_contiguous: int
    largest_stitchable: int
    device_total: int
    device_free: int
    pending_on: dict[int, int]
    tried: tuple[str, ...]

    @classmethod
    def of(cls, native: dict[str, Any]) -> Shortage:
        """From what the core answers."""
        limit = min(native["limit"], native["device_total"])
        growth = max(0, min(limit - native["held"], native["device_free"]))
        tried: list[str] = []
        for step, has_failed in native["tried"]:
            text = _STEPS[step] + (" (the driver has no memory)" if has_failed else "")
            if not tried or tried[-1] != text:
                tried.append(text)
        return cls(
            asked=native["asked"],
            rounded=native["rounded"],
            limit=limit,
            held=native["held"],
            live=native["live"],
            pending=native["pending"],
            free=native["free"],
            free_for_it=native["free_for_it"],
            largest_contiguous=native["largest_free"],
            largest_stitchable=native["free"] + growth,
            device_total=native["device_total"],
            device_free=native["device_free"],
            pending_on=dict(native["pending_on"]),
            tried=tuple(tried),
        )

    @property
    def reason(self) -> str:
        """In one word: ``"limit"``, ``"pending"``, ``"contiguous"`` or ``"physical"``."""
        if self.limit < self.device_total and self.live + self.pending + self.rounded > self.limit:
            return "limit"
        if self.rounded <= self.largest_stitchable:
            return "contiguous"
        if self.rounded <= self.largest_stitchable + self.pending:
            return "pending"
        return "physical"

    @property
    def hint(self) -> str:
        """What to do about it."""
        if self.reason == "limit":
            over = self.live + self.pending + self.rounded - self.limit
            return f"free {format_bytes(over)} first, or raise the pool's limit by that"
        if self.reason == "contiguous":
            return (
                "there is enough memory, but not in one piece where this request may take it; the policy "
                '"expandable" needs no memory in one piece, and `memlake fit` says what each policy needs'
            )
        if self.reason == "pending":
            return "memory is freed but streams still use it; wait for them (stream.sync()), then try again"
        if self.rounded > self.device_total:
            return f"the device has only {format_bytes(self.device_total)} in all; ask for less, or use a larger device"
        others = self.device_total - self.device_free - self.held
        if others > self.device_total // 50:
            return f"others hold {format_bytes(others)} of the device; free memory there, or ask for less"
        return "live buffers fill the device; free some, ask for less, or use a larger device"

    def to_text(self) -> str:
        """The whole story, in a few sentences."""
        rounded = "" if self.rounded == self.asked else f" (rounded up to {format_bytes(self.rounded)})"
        parts = [
            f"no memory for {format_bytes(self.asked)}{rounded}.",
            f"The pool holds {format_bytes(self.held)} of {format_bytes(self.limit)} it may hold: "
            f"{format_bytes(self.live)} live, {format_bytes(self.pending)} pending, {format_bytes(self.free)} free, "
            f"the largest free block {format_bytes(self.largest_contiguous)} "
            f"(stitched: {format_bytes(self.largest_stitchable)}).",
            f"The device has {format_bytes(self.device_free)} of {format_bytes(self.device_total)} left.",
        ]
        if self.pending_on:
            waiting = ", ".join(
                f"{format_bytes(nbytes)} on {'the default stream' if handle == 0 else f'stream {handle:#x}'}"
                for handle, nbytes in self.pending_on.items()
            )
            parts.append(f"Waiting: {waiting}.")
        if self.tried:
            parts.append(f"Tried: {', '.join(self.tried)}.")
        parts.append(f"Hint: {self.hint}.")
        return " ".join(parts)
