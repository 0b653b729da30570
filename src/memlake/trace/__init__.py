"""Traces: the requests and frees that a program made to its allocator, and the record of that allocator.

A trace is read from a file or made from columns. `Trace` is also `memlake.Trace`. docs/reference/trace_format.md
describes the files. A reader for another format is a new file here, which `loading` calls.
"""

from memlake.trace.call_sites import CallSite
from memlake.trace.caveats import caveats_of
from memlake.trace.context import Annotation, Context, Label
from memlake.trace.examples import example_traces, load_example
from memlake.trace.failure import MissingFileError, TraceFileError
from memlake.trace.history import History
from memlake.trace.operations import Op
from memlake.trace.peak import Peak, PeakRow
from memlake.trace.recorded import Recorded, RecordedBlock, RecordedEvent, RecordedSegment
from memlake.trace.settings import JobSettings
from memlake.trace.shortages import RecordedShortage
from memlake.trace.stacks import Frame, Stacks
from memlake.trace.torch_version import TorchVersions
from memlake.trace.trace import Row, Step, Trace
from memlake.trace.verification import Difference, Verification, recorded_policy, verify

__all__ = [
    "Annotation",
    "CallSite",
    "Context",
    "Difference",
    "Frame",
    "History",
    "JobSettings",
    "Label",
    "MissingFileError",
    "Op",
    "Peak",
    "PeakRow",
    "Recorded",
    "RecordedBlock",
    "RecordedEvent",
    "RecordedSegment",
    "RecordedShortage",
    "Row",
    "Stacks",
    "Step",
    "TorchVersions",
    "Trace",
    "TraceFileError",
    "Verification",
    "caveats_of",
    "example_traces",
    "load_example",
    "recorded_policy",
    "verify",
]
