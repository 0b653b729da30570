"""The call site of each allocation of a trace, as numbers into a list of call sites."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlake.trace import Op
from memlake.trace.call_sites import CallSite, call_site_of
from memlake.trace.live_set import site_of_tag

if TYPE_CHECKING:
    import numpy.typing as npt

    from memlake.trace import Trace

__all__ = ["AllocationSites"]


class AllocationSites:
    """The call sites of a trace.

    Attributes:
        sites: the call sites, each once.
        of_allocation: the number of the site of each allocation.
        of_memory: the same for the allocations of more than 0 bytes, which alone get memory in a replay.
    """

    def __init__(self, trace: Trace) -> None:
        """Finds the call sites of a trace: in its stacks, or by its tags if it has no stacks."""
        births = np.flatnonzero(trace.op == Op.ALLOCATE.value)
        numbers: dict[CallSite, int] = {}
        if trace.context is not None:
            kinds, places = np.unique(trace.context.stack[births], return_inverse=True)
            found = [call_site_of(trace.context.stacks[int(kind)]) for kind in kinds]
        else:
            kinds, places = np.unique(trace.tag[births], return_inverse=True)
            found = [site_of_tag(trace.tags[int(kind)] if trace.tags else "") for kind in kinds]
        of_kind = np.array([numbers.setdefault(site, len(numbers)) for site in found], np.uint32)
        self.sites: tuple[CallSite, ...] = tuple(numbers)
        self.of_allocation: npt.NDArray[np.uint32] = of_kind[places.reshape(-1)] if len(births) else of_kind
        self.of_memory: npt.NDArray[np.uint32] = self.of_allocation[trace.bytes[births] > 0]
