"""Why a pool has no memory for a request, in numbers and in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memlake.policies import ExpandableOptions
from memlake.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from memlake.policies import Options

__all__ = ["Shortage"]

_STEPS = {
    "new_segment": "a new segment",
    "new_addresses": "new addresses",
    "map": "more pages",
    "wait_for_events": "waiting for all streams",
    "release": "giving cached memory back",
    "wait_on_device": "letting streams wait on the device",
    "gather": "gathering free memory",
    "spill": "memory of the host",
}


# Enough is free, and yet no block was found: what to do, by the policy that is in use.
_CONTIGUOUS = {
    "caching": "there is enough memory, but not in one piece where this request may take it; the policies "
    '"lake" and "expandable" need no memory in one piece, and `memlake fit` says what each policy needs',
    "expandable": "there is enough memory, but parts of pages and the free memory of other streams cannot serve this "
    'request; the policy "lake" can use both, and `memlake fit` says what each policy needs',
    "lake": "there is enough memory, but free pieces lie between live buffers where they cannot be gathered; close "
    "some buffers, or ask for less",
    "stitch": "there is enough memory, but blocks of other streams, small blocks and blocks that are partly used "
    'cannot be stitched for this request, or max_views or max_mappings is too small; the policy "lake" can use them',
    "direct": 'the driver has enough memory, but gives none in one piece; the policy "lake" needs no such piece',
}
_SMALL_PAGE, _LARGEST_SMALL = 2 * 2**20, 2**20  # of PyTorch's expandable segments


def _page(policy: Options, rounded: int) -> int:
    if not isinstance(policy, ExpandableOptions):
        return 1
    return _SMALL_PAGE if rounded <= _LARGEST_SMALL else parse_bytes(policy.large_segment_size)


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """What a pool knew when it had to refuse a request. All sizes in bytes.

    Attributes:
        asked: the request.
        rounded: what its policy makes of it.
        limit: what the pool may hold: its limit, or the device's memory.
        held: physical memory of the pool.
        held_on_host: what it has on the host beside that.
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
        policy: the name of the policy.
        page: the policy takes memory from the driver in multiples of this for such a request; 1 if it does not.
        location: where the pool's memory lies.
        has_no_addresses: True if not memory was missing, but a range of addresses to map it to.
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
    policy: str = ""
    page: int = 1
    has_no_addresses: bool = False
    held_on_host: int = 0
    location: str = "device"

    @classmethod
    def of(cls, native: dict[str, Any], policy: Options, location: str = "device") -> Shortage:
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
            policy=policy.name,
            page=_page(policy, native["rounded"]),
            has_no_addresses=native["has_no_addresses"],
            held_on_host=native["held_on_host"],
            location=location,
        )

    @property
    def reason(self) -> str:
        """In one word: ``"addresses"``, ``"limit"``, ``"pages"``, ``"contiguous"``, ``"pending"`` or ``"physical"``."""
        if self.has_no_addresses:
            return "addresses"
        if self.limit < self.device_total and self.live + self.pending + self.rounded > self.limit:
            return "limit"
        if self.rounded <= self.largest_stitchable:
            return "contiguous" if self._in_pages <= self.largest_stitchable else "pages"
        if self.rounded <= self.largest_stitchable + self.pending:
            return "pending"
        return "physical"

    @property
    def hint(self) -> str:
        """What to do about it."""
        if self.reason == "addresses":
            return (
                "memory is there, but no range of addresses to map it to; every stream that has buffers keeps "
                "addresses of its own, so use fewer streams, use them again, or close buffers of some and call trim()"
            )
        if self.reason == "limit":
            over = self.live + self.pending + self.rounded - self.limit
            return f"free {format_bytes(over)} first, or raise the pool's limit by that"
        if self.reason == "pages":
            return (
                f"the policy {self.policy!r} takes whole pages of {format_bytes(self.page)}, so this request needs "
                f'{format_bytes(self._in_pages)}; ask for less, or use the policy "lake"'
            )
        if self.reason == "contiguous":
            return _CONTIGUOUS.get(self.policy, _CONTIGUOUS["caching"])
        if self.reason == "pending":
            return "memory is freed but streams still use it; wait for them (stream.sync()), then try again"
        if _STEPS["spill"] in (step.split(" (")[0] for step in self.tried):
            return "neither the devices nor the host have the memory; free some, or ask for less"
        if self.location != "device":
            return "the host has no more memory to give; free some here or in other programs, or ask for less"
        if self.rounded > self.device_total:
            return f"the device has only {format_bytes(self.device_total)} in all; ask for less, or use a larger device"
        others = self.device_total - self.device_free - self.held
        if others > self.device_total // 50:
            return f"others hold {format_bytes(others)} of the device; free memory there, or ask for less"
        return "live buffers fill the device; free some, ask for less, or use a larger device"

    @property
    def _in_pages(self) -> int:
        return -(-self.rounded // self.page) * self.page

    def to_text(self) -> str:
        """The whole story, in a few sentences."""
        rounded = "" if self.rounded == self.asked else f" (rounded up to {format_bytes(self.rounded)})"
        on_host = f", and {format_bytes(self.held_on_host)} on the host" if self.held_on_host else ""
        place = "device" if self.location == "device" else "host"
        parts = [
            f"no memory for {format_bytes(self.asked)}{rounded}.",
            f"The pool holds {format_bytes(self.held)} of {format_bytes(self.limit)} it may hold{on_host}: "
            f"{format_bytes(self.live)} live, {format_bytes(self.pending)} pending, {format_bytes(self.free)} free, "
            f"the largest free block {format_bytes(self.largest_contiguous)} "
            f"(stitched: {format_bytes(self.largest_stitchable)}).",
            f"The {place} has {format_bytes(self.device_free)} of {format_bytes(self.device_total)} left.",
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
