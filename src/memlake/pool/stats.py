"""Pool statistics, and their names in PyTorch, RMM, CuPy and CUDA."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

__all__ = ["PoolStats", "StreamStats"]


@dataclass(frozen=True, kw_only=True)
class StreamStats:
    """The memory of one stream, in bytes.

    Attributes:
        stream: the handle of the stream; 0: the default stream.
        live: blocks in use that were allocated for this stream.
        pending: freed blocks of its segments that another stream may still use.
        free: cached blocks that can serve a request of this stream at once.
    """

    stream: int
    live: int
    pending: int
    free: int


@dataclass(frozen=True, kw_only=True)
class PoolStats:
    """The counters of a pool at one moment. Sizes are in bytes. A peak is the largest value since `reset_peaks`.

    ``live + pending + free == held + held_on_host``, and ``requested <= allocated`` is at most that.

    Attributes:
        requested: the sum of the requested sizes, until their blocks are free again.
        allocated: the sum of the block sizes, rounding included, until close(). Same as `live`.
        live: blocks in use, rounding included.
        pending: freed blocks that a stream may still use.
        free: cached blocks, ready for a request; those of graph pools for requests there.
        held: physical memory that was created and not released, on the pool's devices, or on the host with
            ``location="host"``. PyTorch calls it reserved.
        graph_held: the part of `held` that belongs to graph pools (`Pool.graph_pool`).
        graph_live: the part of `live` that lies there.
        held_on: `held` by the ordinal of the device; empty with ``location="host"``. Memory whose release failed is in
            `held` only.
        held_on_host: memory that was spilled to the host (``spill="host"``). It does not count against `limit`.
        limit: the most that the pool may hold; None: only the size of the device limits it.
        largest_contiguous: the largest free block; 0 with the policy `driver`, which does not tell it.
        requested_peak, allocated_peak, active_peak, held_peak, graph_held_peak, graph_live_peak, held_on_host_peak:
            peaks; active is live plus pending.
        fragmentation_at_peak: ``1 - allocated / held``, both read when held reached its peak; 0 if nothing was held.
        gmlake_fragmentation: ``1 - active_peak / held_peak``, the figure of the GMLake paper, for comparison.
        num_allocations, num_frees, num_live, num_pending, num_segments: counts.
        num_alloc_retries: how often the policy released all cached memory, and the policy `driver` waited for all
            streams, to try a request once more. A request may count more than once.
        num_ooms: requests that were refused because there was no memory.
        host_waits: how often the host had to wait for a stream.
        driver_calls: the driver calls of this pool, by CUDA name.
        modelled_driver_ms: the time of these calls on a GPU, by the cost table (core/driver/cost_model.hpp).
        streams: the memory of each stream.
        policy_counters: counters that only this policy has, for instance the number of chunks that a lake moved,
            and its level of aliasing in one word.
        notes: what the pool does without because of its devices, each in one sentence: the fallback to another policy,
            and features that the driver refused in use.
    """

    requested: int
    allocated: int
    live: int
    pending: int
    free: int
    held: int
    graph_held: int
    graph_live: int
    held_on: dict[int, int]
    held_on_host: int
    limit: int | None
    largest_contiguous: int
    requested_peak: int
    allocated_peak: int
    active_peak: int
    held_peak: int
    graph_held_peak: int
    graph_live_peak: int
    held_on_host_peak: int
    fragmentation_at_peak: float
    gmlake_fragmentation: float
    num_allocations: int
    num_frees: int
    num_live: int
    num_pending: int
    num_segments: int
    num_alloc_retries: int
    num_ooms: int
    host_waits: int
    driver_calls: dict[str, int]
    modelled_driver_ms: float
    streams: tuple[StreamStats, ...]
    policy_counters: dict[str, int | float | str]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, native: dict[str, Any], notes: tuple[str, ...] = ()) -> PoolStats:
        """Converts the figures of the core. A field that the core gives under the same name needs no line here."""
        held_peak, active = native["held_peak"], native["active"]
        allocated = native["allocated"]
        same_name = {field.name: native[field.name] for field in fields(cls) if field.name in native}
        return cls(
            **same_name
            | {
                "live": allocated,
                "pending": active - allocated,
                "free": native["held"] + native["held_on_host"] - active,
                "notes": notes,
                "largest_contiguous": native["largest_free"],
                "fragmentation_at_peak": 1 - native["allocated_at_held_peak"] / held_peak if held_peak else 0.0,
                "gmlake_fragmentation": 1 - native["active_peak"] / held_peak if held_peak else 0.0,
                "num_alloc_retries": native["num_retries"],
                "modelled_driver_ms": native["modelled_us"] / 1000,
                "streams": tuple(
                    StreamStats(stream=stream, live=live, pending=pending, free=free)
                    for stream, live, pending, free in native["streams"]
                ),
            }
        )

    @property
    def aliasing(self) -> str | None:
        """The level of aliasing in force: ``"none"``, ``"whole"`` or ``"prefix"``; None if the policy has none.

        A pool lowers its level if the driver refuses a second mapping. See `memlake.policies.LakeOptions`.
        """
        level = self.policy_counters.get("aliasing")
        return level if isinstance(level, str) else None

    def to_dict(self) -> dict[str, Any]:
        """Returns all figures as numbers, lists and dicts, for JSON."""
        return asdict(self)

    def to_torch(self) -> dict[str, int]:
        """Returns the figures under the keys of ``torch.cuda.memory_stats()``. PyTorch calls held memory reserved.

        Keys for figures that a pool does not count are left out.
        """
        return {
            "requested_bytes.all.current": self.requested,
            "requested_bytes.all.peak": self.requested_peak,
            "allocated_bytes.all.current": self.allocated,
            "allocated_bytes.all.peak": self.allocated_peak,
            "active_bytes.all.current": self.live + self.pending,
            "active_bytes.all.peak": self.active_peak,
            "reserved_bytes.all.current": self.held,
            "reserved_bytes.all.peak": self.held_peak,
            "allocation.all.current": self.num_live,
            "allocation.all.allocated": self.num_allocations,
            "allocation.all.freed": self.num_frees,
            "segment.all.current": self.num_segments,
            "num_alloc_retries": self.num_alloc_retries,
            "num_ooms": self.num_ooms,
        }

    def to_rmm(self) -> dict[str, int]:
        """Returns the figures under the names of ``rmm.statistics.Statistics``.

        ``total_bytes`` and ``peak_count`` are left out; a pool does not count them.
        """
        return {
            "current_bytes": self.requested,
            "current_count": self.num_live,
            "peak_bytes": self.requested_peak,
            "total_count": self.num_allocations,
        }

    def to_cupy(self) -> dict[str, int]:
        """Returns the figures under the method names of ``cupy.cuda.MemoryPool``."""
        return {
            "used_bytes": self.live + self.pending,
            "free_bytes": self.free,
            "total_bytes": self.held,
            "get_limit": self.limit or 0,
        }

    def to_cuda(self) -> dict[str, int]:
        """Returns the figures under the names of CUDA's pool attributes (``CU_MEMPOOL_ATTR_...``), as in cuda.core."""
        return {
            "reserved_mem_current": self.held,
            "reserved_mem_high": self.held_peak,
            "used_mem_current": self.live + self.pending,
            "used_mem_high": self.active_peak,
        }
