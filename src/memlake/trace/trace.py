"""A trace: the list of requests and frees that a program made, as columns."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from memlake.errors import ConfigError
from memlake.trace import columns as column_rules
from memlake.trace.cutting import cut
from memlake.trace.failure import TraceFileError
from memlake.trace.live_bytes import peak_of
from memlake.trace.operations import Op
from memlake.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from memlake.trace.recorded import Recorded
    from memlake.units import Size

__all__ = ["Row", "Step", "Trace"]


class Step(NamedTuple):
    """One step of a trace: rows `start` to `stop`, the latter excluded. Its first row is the one that announces it."""

    number: int
    start: int
    stop: int


class Row(NamedTuple):
    """One row of a trace. See `Op` for what the numbers mean to each operation."""

    op: Op
    id: int
    bytes: int
    stream: int
    time: int | None
    tag: str


class Trace:
    """What a program asked of its allocator: an immutable table with one row per operation.

    Every trace is valid: a row names only allocations made before it, nothing is freed twice, and the n-th allocation
    has the id n. Build one from columns, or load one::

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
    ) -> None:
        """Makes a trace of columns, which are copied; ids may be any numbers and are replaced by the allocation's.

        Raises:
            TraceError: if a row breaks a rule; it names the row.
        """
        self._tags: tuple[str, ...] = tuple(tags)
        self._recorded = recorded
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

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: int | None = None, memory_limit: Size = "4GiB") -> Trace:
        """Reads a trace from a file, whose format is told by its content.

        Known: memlake's own ``.npz`` and text, PyTorch's memory snapshots (pickles, read without importing anything),
        RMM's CSV logs, and gzip of any of them. docs/reference/trace_format.md describes them.

        Args:
            path: the file.
            device: which device of a snapshot; by default the one with most events. The trace's metadata says which
                there were and which it is.
            memory_limit: what reading may cost; a file that needs more is refused.

        Raises:
            TraceError: if the file is not a trace, is broken or dishonest; it names the file, the place and what to do.
            ConfigError: if there is no such device in the file, or the limit is no size.
        """
        # Here, because the readers make traces and so import this module.
        from memlake.trace.loading import load

        return load(path, device, parse_bytes(memory_limit, what="memory_limit"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace to a file, in the format that the file's name asks for.

        ``.npz`` keeps everything but `recorded`, and equal traces give equal bytes. ``.txt`` and ``.txt.gz`` keep the
        operations, ids, bytes and streams. ``.parquet`` is for other programs and needs ``pip install
        memlake[parquet]``. A file that exists is replaced when the new one is complete.

        Raises:
            ConfigError: if the name has none of these endings, or the extra for Parquet is not installed.
            OSError: if the file cannot be written.
        """
        from memlake.trace.saving import save

        save(self, path)

    def validate(self) -> None:
        """Checks every rule again (docs/reference/trace_format.md lists them); a trace that was made keeps them all.

        Raises:
            TraceError: if a row breaks a rule, which means that someone wrote to its arrays.
        """
        Trace(self.op, self.id, self.bytes, self.stream, time=self.time, tag=self.tag, tags=self.tags)

    @property
    def op(self) -> npt.NDArray[np.uint8]:
        """What each row is: a number of `Op`."""
        return self._columns.op

    @property
    def id(self) -> npt.NDArray[np.uint32]:
        """The allocation that a row is about; the step's number where one begins."""
        return self._columns.id

    @property
    def bytes(self) -> npt.NDArray[np.uint64]:
        """What an allocation asks for, not rounded."""
        return self._columns.bytes

    @property
    def stream(self) -> npt.NDArray[np.uint16]:
        """The stream of an allocation, of a record, or of a free on another stream."""
        return self._columns.stream

    @property
    def time(self) -> npt.NDArray[np.int64] | None:
        """When, in microseconds; None if the trace has no times."""
        return self._columns.time

    @property
    def tag(self) -> npt.NDArray[np.uint32]:
        """For each row an index into `tags`."""
        return self._columns.tag

    @property
    def tags(self) -> tuple[str, ...]:
        """Who allocated, as text."""
        return self._tags

    @property
    def recorded(self) -> Recorded | None:
        """What the program's own allocator did, if the file knew. It is not saved, and does not count for equality."""
        return self._recorded

    @property
    def metadata(self) -> dict[str, Any]:
        """What is known about the trace, as JSON has it; a copy."""
        metadata: dict[str, Any] = json.loads(self._metadata)
        return metadata

    @cached_property
    def num_allocations(self) -> int:
        """How many allocations there are; their ids are the numbers below this."""
        return int(np.count_nonzero(self.op == Op.ALLOCATE))

    @cached_property
    def num_streams(self) -> int:
        """How many different streams the rows name."""
        named = np.isin(self.op, column_rules.WITH_STREAM)
        return len(np.unique(self.stream[named]))

    @cached_property
    def peak_live(self) -> int:
        """The largest sum of live requests in bytes, each rounded up to 512: no allocator can do with less."""
        return peak_of(self._columns)[0]

    @cached_property
    def peak_row(self) -> int | None:
        """The first row at which `peak_live` is reached; None if nothing is allocated."""
        return peak_of(self._columns)[1]

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps in order. Rows before the first one set things up and belong to none."""
        starts = np.flatnonzero(self.op == Op.STEP).tolist()
        stops = [*starts[1:], len(self)]
        return tuple(Step(int(self.id[start]), start, stop) for start, stop in zip(starts, stops, strict=False))

    def in_steps(self, first: int, last: int) -> Trace:
        """The steps numbered `first` to `last`, both included, as a trace of its own; see `__getitem__`.

        Raises:
            ConfigError: if no step has a number in that range.
        """
        inside = [step for step in self.steps if first <= step.number <= last]
        if not inside:
            known = f"{self.steps[0].number} to {self.steps[-1].number}" if self.steps else "none"
            raise ConfigError(f"no step from {first} to {last} in this trace; there are: {known}")
        return self[inside[0].start : inside[-1].stop]

    def __len__(self) -> int:
        return len(self._columns)

    @overload
    def __getitem__(self, key: int) -> Row: ...

    @overload
    def __getitem__(self, key: slice) -> Trace: ...

    def __getitem__(self, key: int | slice) -> Row | Trace:
        """One row, or rows `start` to `stop` as a trace of its own.

        A part begins with what is live at `start`: those allocations come first, in their order, so the part can be
        replayed. It therefore can be longer than ``stop - start``, and ids are numbered anew.
        """
        if isinstance(key, slice):
            start, stop, stride = key.indices(len(self))
            if stride != 1:
                raise ConfigError("a trace is cut in one piece: trace[start:stop], without a stride")
            part = cut(self._columns, start, stop)
            return Trace(**part, tags=self.tags, metadata=self.metadata)  # type: ignore[arg-type]
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
        parts = [
            _count(len(self), "row"),
            _count(self.num_allocations, "allocation"),
            _count(self.num_streams, "stream"),
            _count(len(self.steps), "step"),
            f"peak live {format_bytes(self.peak_live)}",
        ]
        return f"<memlake.Trace: {', '.join(parts)}>"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
