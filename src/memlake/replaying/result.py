"""What one replay gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from memlake.policies import Options
    from memlake.replaying.failure import Failure

__all__ = ["ReplayResult", "Timeline"]


@dataclass(frozen=True, eq=False)
class Timeline:
    """Samples over a replay, as columns: before a row, what was allocated and what was held. The last is the end."""

    rows: npt.NDArray[np.uint64]
    allocated: npt.NDArray[np.uint64]
    held: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.rows)

    def to_json(self) -> dict[str, list[int]]:
        """The three columns as lists."""
        return {"rows": self.rows.tolist(), "allocated": self.allocated.tolist(), "held": self.held.tolist()}


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """What one replay gave. Sizes are bytes.

    Attributes:
        options: the policy with its settings.
        capacity: of the device.
        limit: what the pool was allowed to hold, the policy's own memory fraction included; None if it was all.
        events: when events were complete; see `memlake.replay`.
        rows: how many rows of the trace were replayed: all of them unless memory ran out.
        peak_live: the largest sum of live requests, each rounded up to 512 bytes; of the whole trace, whatever the
            policy did.
        peak_requested: the largest sum of requests whose memory was not free again, as PyTorch counts it.
        peak_allocated: the largest sum of blocks in use, slack included, as PyTorch counts it.
        peak_held: the most physical memory that was held.
        num_ooms: how many requests found no memory.
        num_alloc_retries: how often everything cached was given back to find memory.
        host_waits: how often the host had to wait for a stream.
        counters: what only this policy counts, for instance how many chunks a lake has moved.
        driver_calls: how many, by the name of the CUDA function.
        modelled_driver_ms: what they take on an A100, by memlake's cost table; None where that cannot be said.
        ns_per_event: CPU time of the policy per row, its driver calls on the emulator included; never the same twice.
        failure: the first request that found no memory; None if all did.
        timeline: samples, if they were asked for.
    """

    options: Options
    capacity: int
    limit: int | None
    events: str
    rows: int
    peak_live: int
    peak_requested: int
    peak_allocated: int
    peak_held: int
    num_ooms: int
    num_alloc_retries: int
    host_waits: int
    counters: dict[str, int | float]
    driver_calls: Mapping[str, int]
    modelled_driver_ms: float | None
    ns_per_event: float = field(compare=False)
    failure: Failure | None
    timeline: Timeline | None = field(default=None, compare=False)

    @property
    def policy(self) -> str:
        """The policy's name."""
        return self.options.name

    @property
    def label(self) -> str:
        """The policy's name with the settings that are not the default."""
        return self.options.label

    @property
    def fits(self) -> bool:
        """Whether every request found memory."""
        return self.failure is None

    @property
    def outcome(self) -> str:
        """``"ok"`` or ``"oom"``."""
        return "ok" if self.fits else "oom"

    @property
    def failed_event(self) -> int | None:
        """The row of the first request that found no memory."""
        return None if self.failure is None else self.failure.row

    @property
    def utilization(self) -> float | None:
        """`peak_live` over `peak_held`; None after running out of memory, and where nothing was held."""
        return self.peak_live / self.peak_held if self.fits and self.peak_held else None

    @property
    def approximate(self) -> bool:
        """Whether the figures are not those of the real thing."""
        return self.options.is_approximate

    @property
    def sentence(self) -> str:
        """The outcome, for people."""
        device = f"a device of {format_bytes(self.capacity)}"
        if self.failure is None:
            return f"{self.label} fits on {device} and holds {format_bytes(self.peak_held)} at most."
        return f"{self.label} runs out of memory on {device}: {self.failure.sentence}."

    def to_json(self) -> dict[str, Any]:
        """What ``--json`` prints for this policy, as a dict of numbers, strings, lists and None."""
        return {
            "policy": self.policy,
            "options": self.options.to_text(),
            "outcome": self.outcome,
            "capacity": self.capacity,
            "limit": self.limit,
            "events": self.events,
            "rows": self.rows,
            "peak_live": self.peak_live,
            "peak_requested": self.peak_requested,
            "peak_allocated": self.peak_allocated,
            "peak_held": self.peak_held,
            "utilization": self.utilization,
            "failed_event": self.failed_event,
            "num_ooms": self.num_ooms,
            "num_alloc_retries": self.num_alloc_retries,
            "host_waits": self.host_waits,
            "counters": self.counters,
            "driver_calls": dict(self.driver_calls),
            "modelled_driver_ms": self.modelled_driver_ms,
            "ns_per_event": self.ns_per_event,
            "approximate": self.approximate,
            "failure": None if self.failure is None else self.failure.to_json(),
            "timeline": None if self.timeline is None else self.timeline.to_json(),
            "sentence": self.sentence,
        }
