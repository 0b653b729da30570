"""The call sites of what is live at the peak of a trace."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.trace import Op
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.trace import Frame, Trace

__all__ = ["PeakSite", "largest_sites"]

UNKNOWN = "unknown code"
# Frames of PyTorch, of other installed packages and of native code do not tell which line of the job it was.
_FOREIGN = re.compile(r"(^|/)(site-packages|dist-packages|torch)/|^<|\.(cpp|cc|cu|c|h|hpp|so)$|^\?\?$|^$")


@dataclass(frozen=True)
class PeakSite:
    """What one place in the program has live at the peak.

    Attributes:
        site: ``"train.py:12 forward"``, the tag of the trace, or ``"unknown code"``.
        nbytes: the live bytes.
        count: the number of allocations.
    """

    site: str
    nbytes: int
    count: int

    @property
    def sentence(self) -> str:
        """The site as text."""
        return f"{format_bytes(self.nbytes)} by {self.site} ({self.count} allocation{'s' * (self.count != 1)})"

    def to_json(self) -> dict[str, Any]:
        """Returns all fields as a dict."""
        return asdict(self)


def largest_sites(trace: Trace, number: int = 5) -> tuple[PeakSite, ...]:
    """Returns the sites with the most live bytes at the peak of a trace, largest first. Code without a site is one."""
    if trace.peak_row is None:
        return ()
    past = slice(0, trace.peak_row + 1)
    op = trace.op[past]
    freed = np.zeros(trace.num_allocations, np.bool_)
    freed[trace.id[past][np.isin(op, (Op.FREE, Op.FREE_ON))]] = True
    rows = np.flatnonzero(op == Op.ALLOCATE)
    # The n-th allocation has the id n.
    rows = rows[~freed[: len(rows)]]
    sums: dict[str, tuple[int, int]] = {}
    names: dict[tuple[int, int], str] = {}
    for row in rows.tolist():
        key = (0 if trace.context is None else int(trace.context.stack[row]), int(trace.tag[row]))
        if key not in names:
            names[key] = _site(trace.stack_of(row), trace[row].tag)
        nbytes, count = sums.get(names[key], (0, 0))
        sums[names[key]] = (nbytes + int(trace.bytes[row]), count + 1)
    ordered = sorted(sums.items(), key=lambda one: (-one[1][0], one[0]))
    return tuple(PeakSite(site, nbytes, count) for site, (nbytes, count) in ordered[:number])


def _site(stack: tuple[Frame, ...], tag: str) -> str:
    for frame in stack:
        if not _FOREIGN.search(frame.filename):
            return f"{frame.filename}:{frame.line} {frame.name}"
    return tag or UNKNOWN
