"""The result of a replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from memlake.printable import Printable
from memlake.trace import History
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from memlake.policies import Options
    from memlake.replaying.failure import Failure
    from memlake.replaying.moments import Moments

__all__ = ["ReplayResult", "Timeline"]


@dataclass(frozen=True, eq=False)
class Timeline:
    """Samples of a replay: the most allocated and held bytes from a row to the row of the next sample.

    `driver_ms` is the modelled time of all driver calls before the row of the sample.

    The last sample is the end of the replay. The first row is the first one of the trace's history: what was live
    before it is allocated by then.
    """

    rows: npt.NDArray[np.uint64]
    allocated: npt.NDArray[np.uint64]
    held: npt.NDArray[np.uint64]
    driver_ms: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rows)

    def to_json(self) -> dict[str, list[int]]:
        """Returns the columns of bytes as lists."""
        return {"rows": self.rows.tolist(), "allocated": self.allocated.tolist(), "held": self.held.tolist()}


@dataclass(frozen=True, kw_only=True)
class ReplayResult(Printable, table="replay"):
    """The result of one replay. Sizes are in bytes. `print` shows it as ``memlake replay`` does.

    Attributes:
        options: the policy with its options.
        capacity: the memory of the device.
        limit: the most that the pool could hold, the policy's own memory fraction included; None: no limit.
        events: when events were complete; see `memlake.replay`.
        rows: how many rows of the trace were replayed: all of them unless memory ran out.
        peak_live: the largest sum of live requests of the whole trace, each rounded up to 512 bytes. It does not depend
            on the policy.
        peak_requested: the largest sum of requested sizes, until their blocks are free again, as PyTorch counts it.
        peak_allocated: the largest sum of blocks in use, rounding included, as PyTorch counts it.
        peak_held: the largest physical memory that was held. PyTorch calls it reserved.
        num_ooms: how many requests found no memory.
        num_alloc_retries: how often the policy released all cached memory, and the policy `driver` waited for all
            streams, to try a request once more. A request may count more than once.
        host_waits: how often the host had to wait for a stream.
        counters: counters that only this policy has, for instance the number of chunks that a lake moved.
        driver_calls: the number of driver calls, by CUDA name.
        modelled_driver_ms: the time of these calls on an A100, by memlake's cost table; None if it is not modelled.
        longest_request_ms: the part of this time that the longest single request took; None if it is not modelled.
        ns_per_event: CPU time of the policy per row, driver calls on the emulator included. It varies between runs.
        failure: the first request that found no memory; None if every request found memory.
        timeline: the samples, if the replay was asked for them.
        moments: the blocks after chosen rows, if the replay was asked for them.
        history: how much of the job's life the trace records.
        doubt: why the file does not show that the job fits, although every request found memory; empty if it does.
        num_rows: the number of rows of the trace.
        notes: what a reader must know before trusting the figures, one text each.
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
    counters: dict[str, int | float | str]
    driver_calls: Mapping[str, int]
    modelled_driver_ms: float | None
    longest_request_ms: float | None
    ns_per_event: float = field(compare=False)
    failure: Failure | None
    timeline: Timeline | None = field(default=None, compare=False)
    moments: Moments | None = field(default=None, compare=False, repr=False)
    history: History = field(default_factory=History)
    doubt: str = ""
    num_rows: int = 0
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        held = f"held peak {format_bytes(self.peak_held)} of {format_bytes(self.capacity)}"
        return f"<memlake.ReplayResult: {self.label} {self.outcome}, {held}>"

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return self.options.name

    @property
    def label(self) -> str:
        """The name of the policy, with the options that differ from the default."""
        return self.options.label

    @property
    def aliasing(self) -> str | None:
        """The level of aliasing in force at the end of the replay; None for a policy that has no such level."""
        level = self.counters.get("aliasing")
        return level if isinstance(level, str) else None

    @property
    def fits(self) -> bool:
        """True if every request found memory, and the history of the trace suffices to say that the job fits."""
        return self.outcome == "ok"

    @property
    def ran(self) -> bool:
        """True if every request of the trace found memory, whatever the trace lacks."""
        return self.failure is None

    @property
    def budget(self) -> int:
        """The most that the policy could hold: the capacity, or the limit if that is smaller."""
        return self.capacity if self.limit is None else min(self.limit, self.capacity)

    @property
    def outcome(self) -> str:
        """``"ok"``, ``"oom"``, or ``"unknown"`` if the history of the trace does not suffice to decide it."""
        if self.ran:
            return "ok" if not self.doubt and self.history.can_tell_that_it_fits(self.budget) else "unknown"
        # A state is allocated anew, in another order than the job did: only what is live is certain.
        return "unknown" if self.history.kind == "state" and self.peak_live <= self.budget else "oom"

    @property
    def failed_event(self) -> int | None:
        """The row of the first request that found no memory, or None."""
        return None if self.failure is None else self.failure.row

    @property
    def utilization(self) -> float | None:
        """`peak_live` / `peak_held`; None if memory ran out or nothing was held."""
        return self.peak_live / self.peak_held if self.ran and self.peak_held else None

    @property
    def held_over_live(self) -> int:
        """`peak_held` - `peak_live`. If memory ran out, the replay ended before its peak, and this may be negative."""
        return self.peak_held - self.peak_live

    @property
    def stalls(self) -> int:
        """How often the replay stopped the program: retries after releasing all caches, and waits for a stream."""
        return self.num_alloc_retries + self.host_waits

    @property
    def num_memory_calls(self) -> int:
        """The number of driver calls about memory and addresses: those whose CUDA name begins with ``cuMem``."""
        return sum(count for call, count in self.driver_calls.items() if call.startswith("cuMem"))

    @property
    def approximate(self) -> bool:
        """True if the figures only approximate those of the real allocator."""
        return self.options.capabilities.approximate

    @property
    def sentence(self) -> str:
        """The outcome as a sentence."""
        device = f"a device of {format_bytes(self.capacity)}"
        if self.outcome == "unknown":
            what = "what was live" if self.history.kind == "state" else "the recorded part"
            held = f" Under {self.label} {what} takes {format_bytes(self.peak_held)} at most." * self.ran
            why = self.doubt or self.history.sentence
            return f"It cannot be known whether the job fits on {device}. {why}{held}"
        if self.failure is None:
            return f"{self.label} fits on {device} and holds {format_bytes(self.peak_held)} at most."
        return f"{self.label} runs out of memory on {device}: {self.failure.sentence}."

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object that ``memlake replay --json`` prints, as a dict."""
        return self.figures() | {"trace_rows": self.num_rows, "notes": list(self.notes)}

    def figures(self) -> dict[str, Any]:
        """Returns the JSON object without what is equal for all replays of the trace."""
        return {
            "policy": self.policy,
            "options": self.options.to_text(),
            "aliasing": self.aliasing,
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
            "memory_calls": self.num_memory_calls,
            "stalls": self.stalls,
            "modelled_driver_ms": self.modelled_driver_ms,
            "longest_request_ms": self.longest_request_ms,
            "ns_per_event": self.ns_per_event,
            "approximate": self.approximate,
            "failure": None if self.failure is None else self.failure.to_json(),
            "timeline": None if self.timeline is None else self.timeline.to_json(),
            "history": self.history.kind,
            "doubt": self.doubt,
            "sentence": self.sentence,
        }

    def __getstate__(self) -> dict[str, Any]:
        # A read-only view of a dict cannot be pickled.
        return vars(self) | {"driver_calls": dict(self.driver_calls)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"driver_calls": MappingProxyType(state["driver_calls"])})
