"""Verification: the comparison of a replay with the record of the program's own allocator, and what it found.

`verify` needs a replay, which is above the traces. It is a name of `memlake.trace`, because it is about the record of a
trace, so this module loads it from `memlake.replaying` when it is called.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from memlake.trace.settings import policy_of_settings

if TYPE_CHECKING:
    from memlake.policies import TorchOptions
    from memlake.trace.trace import Trace

__all__ = ["Difference", "Verification", "recorded_policy", "verify"]


@dataclass(frozen=True)
class Difference:
    """One difference between the replay and the record.

    Attributes:
        row: the row of the trace; the length of the trace for a difference at the end.
        what: ``"address"``, ``"segment event"``, ``"segment"`` or ``"out of memory"``.
        recorded: the value in the record, or None.
        replayed: the value in the replay, or None.
    """

    row: int
    what: str
    recorded: object
    replayed: object


@dataclass(frozen=True)
class Verification:
    """The result of comparing a replay with a record.

    Attributes:
        policy: the replayed policy.
        tie_break: which of two free blocks of one size the policy took: the block at the lower ``"address"``, or the
            block in the older segment (``"age"``). Versions of PyTorch differ in it.
        is_complete: True if the record begins with the first segment; else its beginning was inferred.
        num_allocations: how many addresses were compared.
        num_segment_events: how many segments were created or released in the record.
        num_blocks: the number of blocks at the end of the record.
        num_differences: the number of all differences.
        differences: the first 100 differences by row.
        num_equal: how many of the compared addresses are equal.
    """

    policy: TorchOptions
    tie_break: str
    is_complete: bool
    num_allocations: int
    num_segment_events: int
    num_blocks: int
    num_differences: int
    differences: tuple[Difference, ...] = field(repr=False)
    num_equal: int = 0

    @property
    def is_exact(self) -> bool:
        """True if every address, every segment event and every block at the end are equal."""
        return self.num_differences == 0

    @property
    def sentence(self) -> str:
        """How well a replay of what the job ran under reproduces the record, in one line."""
        label = self.policy.label
        if self.num_allocations == 0:
            return f"Not verified under {label}: the file has no addresses of requests; the figures are estimates."
        equal = f"{self.num_equal:,} of {self.num_allocations:,} addresses equal"
        if self.is_exact:
            return f"Verified under {label}: {equal}."
        if self.num_equal == self.num_allocations:
            differ = f"{self.num_differences:,} segments differ"
            return f"Not verified under {label}: {equal}, but {differ}; the figures are estimates."
        return f"Not verified under {label}: {equal}; the figures are estimates."

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as a dict."""
        return {
            "policy": self.policy.name,
            "options": self.policy.to_text(),
            "is_exact": self.is_exact,
            "addresses": self.num_allocations,
            "equal_addresses": self.num_equal,
            "differences": self.num_differences,
            "sentence": self.sentence,
        }


def recorded_policy(trace: Trace) -> TorchOptions:
    """Returns PyTorch's allocator with the options that a snapshot names, or with its defaults.

    Raises:
        ConfigError: if the snapshot names options that PyTorch would refuse.
    """
    metadata = trace.metadata
    return policy_of_settings(metadata.get("allocator_settings"), metadata.get("is_expandable") is True)


def verify(trace: Trace, *, policy: TorchOptions | None = None) -> Verification:
    """Replays a trace under the policy that recorded it, and compares the replay with the record.

    It compares the address of each allocation, each created or released segment, and all blocks at the end. The replay
    takes two things from the record, because it cannot compute them: the addresses of new segments, and the times (not
    the choice) of releases.

    Args:
        trace: a trace with a record, such as a trace of a PyTorch snapshot.
        policy: PyTorch's allocator with its options. None: the options that the snapshot names.

    Raises:
        ConfigError: if the trace has no record, or the record begins in the middle of expandable segments.
    """
    found: Verification = import_module("memlake.replaying.verifying").verify(trace, policy=policy)
    return found
