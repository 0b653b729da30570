"""From the columns that a reader found in a file to a trace, or to an error that names the place in that file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlake.trace.failure import TraceFileError
from memlake.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlake.trace.source import Source

__all__ = ["build"]


def build(source: Source, place: Callable[[int], str], **columns: Any) -> Trace:
    """Makes the trace.

    Args:
        source: the file.
        place: says where in the file a row comes from.
        columns: the arguments of `Trace`.

    Raises:
        TraceError: if a row breaks a rule.
    """
    try:
        return Trace(**columns)
    except TraceFileError as error:
        where = error.place if error.row is None else place(error.row)
        raise TraceFileError(error.reason, source.path, where, error.hint, error.row) from None
