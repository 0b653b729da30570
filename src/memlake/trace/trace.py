"""Traces: a `Trace` has the requests and frees of a program as columns."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from memlake.errors import ConfigError
from memlake.trace import columns as column_rules
from memlake.trace.caveats import caveats_of
from memlake.trace.cutting import cut
from memlake.trace.distinct import distinct
from memlake.trace.failure import TraceFileError
from memlake.trace.history import History
from memlake.trace.live_bytes import peak_of
from memlake.trace.operations import Op
from memlake.trace.parts import metadata_of_part
from memlake.trace.peak import peak_of_trace
from memlake.trace.settings import JobSettings
from memlake.trace.shortages import RecordedShortage
from memlake.units import format_bytes, parse_bytes
from memlake.wording import counted

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    import numpy.typing as npt

    from memlake.trace.context import Context
    from memlake.trace.peak import Peak
    from memlake.trace.recorded import Recorded
    from memlake.trace.stacks import Frame
    from memlake.units import Size

__all__ = ["Row", "Step", "Trace"]


class Step(NamedTuple):
    """One step of a trace: rows `start` to `stop`, `stop` excluded. The first row is the row with `Op.STEP`."""

    number: int
    start: int
    stop: int


class Row(NamedTuple):
    """One row of a trace. `Op` says what the numbers mean for each operation."""

    op: Op
    id: int
    bytes: int
    stream: int
    time: int | None
    tag: str


class Trace:
    """The operations that a program asked of its allocator: an immutable table with one row per operation.

    Every trace is valid: a row refers only to earlier allocations, no allocation is freed twice, and the n-th
    allocation has the id n. A trace is made from columns, or loaded::

        trace = memlake.Trace.load("snapshot.pickle")
        trace.peak_live, trace.num_streams, len(trace)
        trace.op, trace.id, trace.bytes, trace.stream      # read-only NumPy arrays
    """

    def __init__(
        self,
        op: npt.ArrayLike,
        id: npt.ArrayLike,
        bytes: npt.ArrayLike,
        stream: npt.ArrayLike | None = None,
        *,
        time: npt.ArrayLike | None = None,
        tag: npt.ArrayLike | None = None,
        tags: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        recorded: Recorded | None = None,
        context: Context | None = None,
    ) -> None:
        """Makes a trace from columns and copies them. Ids may be any numbers; the trace numbers the allocations anew.

        Raises:
            TraceError: if a row breaks a rule. The error names the row.
        """
        self._tags: tuple[str, ...] = tuple(tags)
        self._recorded = recorded
        self._context = context
        try:
            self._metadata = json.dumps(dict(metadata or {}), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise TraceFileError(f"metadata must be what JSON can hold: {error}") from None
        if not all(isinstance(text, str) for text in self.tags):
            raise TraceFileError("tags must be strings")
        try:
            columns = column_rules.normalize(op, id, bytes, stream, tag, time, len(self.tags))
        except column_rules.BadRowError as error:
            raise TraceFileError(error.reason, None, f"row {error.row}", error.hint, error.row) from None
        self._columns = columns
        if context is not None:
            try:
                context.check(len(columns))
            except ValueError as error:
                raise TraceFileError(str(error)) from None

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        device: int | None = None,
        memory_limit: Size = "4GiB",
        progress: Callable[[int, int], object] | None = None,
    ) -> Trace:
        """Reads a trace from a file. The content of the file tells its format.

        The formats are memlake's own ``.npz`` and text, PyTorch's memory snapshots (pickles, read without importing
        anything), RMM's CSV logs, and gzip of any of them. docs/reference/trace_format.md describes them.

        Args:
            path: the file.
            device: the device of a snapshot. None: the device with the most events. The metadata of the trace lists the
                devices of the snapshot and names the chosen one.
            memory_limit: the most memory that reading may need. A file that needs more is refused.
            progress: called with the bytes that are read and all bytes of the file, every few megabytes of a snapshot.

        Raises:
            TraceError: if the file is not a trace, or is damaged or malicious. The error names the file and the place,
                and says what to do.
            ConfigError: if the file has no such device, or the limit is not a size.
        """
        # Imported here, because the readers import this module.
        from memlake.trace.loading import load

        return load(path, device, parse_bytes(memory_limit, what="memory_limit"), progress)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace to a file. The ending of the name selects the format.

        ``.npz`` keeps everything, also `recorded` and `context`; the same trace gives the same bytes. ``.txt`` and
        ``.txt.gz`` keep the operations, ids, bytes and streams. ``.parquet`` is for other programs and needs ``pip
        install memlake[parquet]``. An existing file is replaced when the new one is complete.

        Raises:
            ConfigError: if the name has none of these endings, or the extra for Parquet is not installed.
            OSError: if the file cannot be written.
        """
        from memlake.trace.saving import save

        save(self, path)

    @property
    def op(self) -> npt.NDArray[np.uint8]:
        """The operation of each row, a number of `Op`."""
        return self._columns.op

    @property
    def id(self) -> npt.NDArray[np.uint32]:
        """The id of the allocation of each row; for `Op.STEP` the number of the step."""
        return self._columns.id

    @property
    def bytes(self) -> npt.NDArray[np.uint64]:
        """The requested bytes of an allocation, not rounded."""
        return self._columns.bytes

    @property
    def stream(self) -> npt.NDArray[np.uint16]:
        """The stream of an allocation, of a record_stream, or of a free on another stream."""
        return self._columns.stream

    @property
    def time(self) -> npt.NDArray[np.int64] | None:
        """The time of each row in microseconds; None if the trace has no times."""
        return self._columns.time

    @property
    def tag(self) -> npt.NDArray[np.uint32]:
        """The tag of each row, as an index into `tags`."""
        return self._columns.tag

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags: which code allocated, as text."""
        return self._tags

    @property
    def recorded(self) -> Recorded | None:
        """The record of the program's own allocator, if the file has one. It is saved, but not compared."""
        return self._recorded

    @property
    def context(self) -> Context | None:
        """Which code made each row: stacks, labels and annotations, if the file has them. Saved, but not compared."""
        return self._context

    def stack_of(self, row: int) -> tuple[Frame, ...]:
        """Returns the stack of a row from the innermost frame outwards; empty if none was recorded."""
        row = range(len(self))[row]
        return () if self._context is None else self._context.stacks[int(self._context.stack[row])]

    @property
    def metadata(self) -> dict[str, Any]:
        """A copy of the metadata of the trace, as JSON values."""
        metadata: dict[str, Any] = json.loads(self._metadata)
        return metadata

    @cached_property
    def history(self) -> History:
        """How much of the job's life the trace records. It decides which questions the trace can answer."""
        return History.from_metadata(self.metadata)

    @cached_property
    def settings(self) -> JobSettings:
        """What is known of the job's own allocator, its version of PyTorch and its accelerator."""
        return JobSettings.from_metadata(self.metadata)

    @cached_property
    def shortages(self) -> tuple[RecordedShortage, ...]:
        """The requests for which the job's own allocator had no memory, in order; at most the last 100."""
        return RecordedShortage.all_of(self.metadata)

    @property
    def oom(self) -> RecordedShortage | None:
        """The last of the `shortages`; None if there is none."""
        return self.shortages[-1] if self.shortages else None

    @cached_property
    def caveats(self) -> tuple[str, ...]:
        """What a reader must know before trusting figures that are computed from the trace, one text each."""
        return caveats_of(self)

    @cached_property
    def free_in_private_pools(self) -> int:
        """The free bytes in private pools at the end of the trace. Requests outside these pools could not have them."""
        free = self.metadata.get("free_in_private_pools")
        return free if type(free) is int and 0 <= free < 2**63 else 0

    @cached_property
    def graph_pools(self) -> npt.NDArray[np.uint32] | None:
        """The number of each row's graph pool, 0 for none; None if a replay cannot know the graph pools.

        It knows those of a recording (`Pool.record`). PyTorch's snapshots do not tell when a private pool is released.
        """
        label = None if self.context is None else self.context.labels.get("pool_id")
        if label is None or self.metadata.get("source") != "memlake.Pool.record":
            return None
        return label.number

    @cached_property
    def num_carried(self) -> int:
        """The number of rows at the beginning that allocate what was live before the history begins."""
        carried = self.metadata.get("num_carried")
        return min(carried, len(self)) if type(carried) is int and carried >= 0 else 0

    @cached_property
    def num_allocations(self) -> int:
        """The number of allocations. Their ids are the numbers below it."""
        return int(np.count_nonzero(self.op == Op.ALLOCATE.value))

    @cached_property
    def num_streams(self) -> int:
        """The number of different streams in the rows."""
        return len(distinct(self.stream[column_rules.has_stream(self.op)]))

    @cached_property
    def peak_live(self) -> int:
        """The largest sum of live requests in bytes, each rounded up to 512. No allocator can hold less."""
        return peak_of(self._columns)[0]

    @cached_property
    def peak_row(self) -> int | None:
        """The first row at which `peak_live` is reached; None if the trace allocates nothing."""
        return peak_of(self._columns)[1]

    def peak(self) -> Peak:
        """Returns what was live at the peak, by call site and by category. `Peak.scope` says what it is the peak of."""
        return peak_of_trace(self)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps in order. Rows before the first step belong to no step."""
        starts = np.flatnonzero(self.op == Op.STEP.value).tolist()
        stops = [*starts[1:], len(self)]
        return tuple(Step(int(self.id[start]), start, stop) for start, stop in zip(starts, stops, strict=False))

    def in_steps(self, first: int, last: int) -> Trace:
        """Returns the steps `first` to `last`, both included, as a trace of its own; see `__getitem__`.

        Raises:
            ConfigError: if no step has a number in that range.
        """
        inside = [step for step in self.steps if first <= step.number <= last]
        if not inside:
            known = f"{self.steps[0].number} to {self.steps[-1].number}" if self.steps else "none"
            raise ConfigError(f"no step from {first} to {last} in this trace; there are: {known}")
        return self[inside[0].start : inside[-1].stop]

    def without_context(self) -> Trace:
        """Returns the same trace without stacks, labels and annotations, whose names may be private."""
        return Trace(
            self.op,
            self.id,
            self.bytes,
            self.stream,
            time=self.time,
            tag=self.tag,
            tags=self.tags,
            metadata=self.metadata,
            recorded=None if self._recorded is None else self._recorded.without_stacks(),
        )

    def __len__(self) -> int:
        return len(self._columns)

    @overload
    def __getitem__(self, key: int) -> Row: ...

    @overload
    def __getitem__(self, key: slice) -> Trace: ...

    def __getitem__(self, key: int | slice) -> Row | Trace:
        """Returns one row, or rows `start` to `stop` as a trace of its own.

        The new trace begins with the allocations that are live at `start`, in their order, so that it can be replayed.
        It can therefore be longer than ``stop - start``. The allocations are numbered anew.
        """
        if isinstance(key, slice):
            start, stop, stride = key.indices(len(self))
            if stride != 1:
                raise ConfigError("a trace is cut in one piece: trace[start:stop], without a stride")
            part, rows = cut(self._columns, start, stop)
            metadata = metadata_of_part(self.metadata, start, rows)
            context = None if self._context is None else self._context.at_rows(rows)
            return Trace(**part, tags=self.tags, metadata=metadata, context=context)  # type: ignore[arg-type]
        row = range(len(self))[key]
        return Row(
            Op(self.op[row]),
            int(self.id[row]),
            int(self.bytes[row]),
            int(self.stream[row]),
            None if self.time is None else int(self.time[row]),
            self.tags[self.tag[row]] if self.tags else "",
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        if self.tags != other.tags or self._metadata != other._metadata or (self.time is None) != (other.time is None):
            return False
        mine, theirs = self._columns, other._columns
        return all(
            np.array_equal(getattr(mine, name), getattr(theirs, name))
            for name in ("op", "id", "bytes", "stream", "tag", "time")
            if getattr(mine, name) is not None
        )

    __hash__ = None  # type: ignore[assignment]  # equal by content, and content is large

    def __repr__(self) -> str:
        if not hasattr(self, "_columns"):  # a debugger shows an object whose constructor failed
            return "<memlake.Trace (not made)>"
        parts = [
            counted(len(self), "row"),
            counted(self.num_allocations, "allocation"),
            counted(self.num_streams, "stream"),
            counted(len(self.steps), "step"),
            f"peak live {format_bytes(self.peak_live)}",
        ]
        return f"<memlake.Trace: {', '.join(parts)}>"
