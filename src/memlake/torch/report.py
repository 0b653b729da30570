"""`report`: what memlake holds for PyTorch, and what PyTorch's own allocators would have held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from memlake.analysis import compare
from memlake.printable import Printable
from memlake.torch.installing import Installation, installation
from memlake.torch.pools import pools

if TYPE_CHECKING:
    from memlake.analysis import Comparison
    from memlake.pool.stats import PoolStats
    from memlake.trace import Trace

__all__ = ["TorchReport", "report"]

_BEFORE = ("caching", "expandable")


@dataclass(frozen=True, kw_only=True)
class TorchReport(Printable, table="torch"):
    """The result of `report`.

    Attributes:
        installation: how memlake is installed; None: it is not.
        stats: the statistics of each device's pool, by PyTorch's index. PyTorch's private pools are not part of them.
        before: replays of the recorded requests under PyTorch's own allocators and under memlake's policy; None if
            nothing was recorded.
    """

    installation: Installation | None
    stats: dict[int, PoolStats]
    before: Comparison | None

    def __repr__(self) -> str:
        return f"TorchReport({len(self.stats)} devices, {'with' if self.before else 'without'} a comparison)"


def report(trace: Trace | None = None) -> TorchReport:
    """Returns what memlake holds for PyTorch; with a recorded trace also what PyTorch's allocators would have held.

    ::

        memlake.torch.install()
        train_one_step()                                      # makes the pool
        with memlake.torch.pool().record("steps.npz") as recording:
            train()
        print(memlake.torch.report(recording.trace))

    The comparison replays the recorded requests on a device of the same size: PyTorch's native allocator, its
    expandable segments, and memlake's policy. Requests of private pools (graphs, ``MemPool``) are not recorded.

    Args:
        trace: what `Pool.record` recorded on a pool of PyTorch.
    """
    installed = installation()
    stats = {device: pool.stats() for device, pool in pools().items()}
    before = None
    if trace is not None:
        policies = list(dict.fromkeys([*_BEFORE, "lake" if installed is None else installed.policy]))
        before = compare(trace, capacity=trace.metadata.get("capacity"), policies=policies)
    return TorchReport(installation=installed, stats=stats, before=before)
