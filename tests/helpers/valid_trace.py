"""A check that a trace fulfils the rules of traces."""

from memlake import Trace

__all__ = ["assert_valid"]


def assert_valid(trace: Trace) -> None:
    """Makes a second trace of the columns of a trace, because the constructor of traces checks all rules."""
    again = Trace(trace.op, trace.id, trace.bytes, trace.stream, time=trace.time, tag=trace.tag, tags=trace.tags)
    assert list(again) == list(trace)
