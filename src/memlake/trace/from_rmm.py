"""Reads the CSV log of RMM's `logging_resource_adaptor`.

RMM writes ``Thread,Time,Action,Pointer,Size,Stream``, one line per event: ``allocate`` after the allocation, ``free``
before the free, ``allocate failure`` with a null pointer. Pointers and streams are hexadecimal with or without ``0x``
(versions differ); null is ``0x0``, ``0`` or ``(nil)``. Times are times of day, or seconds since 1970. The reader finds
the columns by their names in the first line. A log without that line (Spark's) has these six columns.
"""

from __future__ import annotations

import io
import re
from array import array
from typing import TYPE_CHECKING

import numpy as np

from memlake.trace.building import build
from memlake.trace.columns import read_only
from memlake.trace.operations import Op
from memlake.trace.recorded import Recorded, RecordedEvent
from memlake.trace.streams import StreamNumbers, plain_stream
from memlake.trace.text import LONGEST_LINE, ROWS_BETWEEN_CHECKS
from memlake.units import LARGEST_SIZE
from memlake.wording import quoted

if TYPE_CHECKING:
    from memlake.trace.source import Source
    from memlake.trace.trace import Trace

__all__ = ["is_rmm_line", "read_rmm"]

COLUMNS = ["Thread", "Time", "Action", "Pointer", "Size", "Stream"]
NEEDED = ("Action", "Pointer", "Size", "Stream")
# RMM's own guide says "deallocate" where RMM writes "free".
ACTIONS = {"allocate": Op.ALLOCATE, "free": Op.FREE, "deallocate": Op.FREE, "allocate failure": None}
DAY = 24 * 3600 * 10**6
# The memory that a row and a failure need while the trace is made: measured 235 and 465 bytes.
ROW_MEMORY = 250
FAILURE_MEMORY = 500

_HEX = re.compile(r"(?:0x)?[0-9a-f]{1,16}", re.IGNORECASE | re.ASCII)
_TIME_OF_DAY = re.compile(r"(\d\d):(\d\d):(\d\d)[.:](\d{6})", re.ASCII)
_TIME_SINCE_1970 = re.compile(r"(\d{1,12})\.(\d{6})", re.ASCII)


def is_rmm_line(line: str) -> bool:
    """Returns True if a file that begins with this line is an RMM log."""
    cells = _cells(line)
    return all(name in cells for name in NEEDED) or (len(cells) == len(COLUMNS) and cells[2] in ACTIONS)


class _Log:
    """The rows read so far, and the state that later lines need."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.op, self.id, self.nbytes = array("B"), array("Q"), array("Q")
        self.stream, self.time, self.address = array("Q"), array("q"), array("Q")
        self.lines = array("Q")
        self.live: dict[int, int] = {}
        """The row of the live allocation at each pointer."""
        self.failures: list[RecordedEvent] = []
        self.days = 0

    def add(self, number: int, action: str, pointer: int, nbytes: int, stream: int, time: int | None) -> None:
        if time is not None and self.time and self.time[-1] - (time + self.days) > DAY // 2:
            self.days += DAY  # the clock passed midnight
        when = None if time is None else time + self.days
        op = ACTIONS[action]
        if op is None:
            self.failures.append(RecordedEvent(len(self.op), "oom", 0, nbytes, stream, when))
            return
        if pointer == 0:
            return  # an allocation of zero bytes, or the free of a null pointer
        if op is Op.ALLOCATE:
            if pointer in self.live:
                raise self._bad(
                    number, f"allocates {pointer:#x}, which line {self.lines[self.live[pointer]]} allocated"
                )
            self.live[pointer] = len(self.op)
            id = len(self.op)
        else:
            allocation = self.live.pop(pointer, None)
            if allocation is None:
                raise self._bad(number, f"frees {pointer:#x}, which is not allocated at this point")
            id = allocation
            if stream != self.stream[allocation]:
                op = Op.FREE_ON
        self.op.append(op)
        self.id.append(id)
        self.nbytes.append(nbytes if op is Op.ALLOCATE else 0)
        self.stream.append(stream)
        self.time.append(when or 0)
        self.address.append(pointer if op is Op.ALLOCATE else 0)
        self.lines.append(number)

    def _bad(self, number: int, reason: str) -> Exception:
        hint = "the log must be whole and of one adaptor, from its first line on"
        return self.source.error(reason, f"line {number}", hint)


def read_rmm(source: Source) -> Trace:
    """Reads the log. Failed allocations are in `Trace.recorded`; null pointers are left out.

    Raises:
        TraceError: for the first line that is wrong, with its number and content.
    """
    log = _Log(source)
    columns: dict[str, int] = {}
    for number, raw in enumerate(io.BytesIO(source.data), start=1):
        line = raw[:LONGEST_LINE].decode("utf-8", "backslashreplace").removeprefix("\ufeff").strip()
        if not line:
            continue
        is_too_long = len(raw) > LONGEST_LINE
        cells = [] if is_too_long else _cells(line)
        if not columns:
            is_header = all(name in cells for name in NEEDED)
            columns = {name: place for place, name in enumerate(cells if is_header else COLUMNS)}
            width = len(cells) if is_header else len(COLUMNS)
            if is_header:
                continue
        try:
            if is_too_long:
                raise ValueError(f"has more than {LONGEST_LINE} bytes, which no row has")
            if len(cells) != width:
                raise ValueError(f"has {len(cells)} cells and not {width}")
            action = cells[columns["Action"]]
            if action not in ACTIONS:
                raise ValueError(f"has the action {quoted(action)}; known: {', '.join(ACTIONS)}")
            pointer = _handle(cells[columns["Pointer"]], "pointer")
            nbytes = _size(cells[columns["Size"]])
            stream = plain_stream(_handle(cells[columns["Stream"]], "stream"))
            time = _time(cells[columns["Time"]]) if "Time" in columns else None
        except ValueError as error:
            raise source.error(f"{quoted(line)} {error}", f"line {number}", "is the file cut off?") from None
        log.add(number, action, pointer, nbytes, stream, time)
        if number % ROWS_BETWEEN_CHECKS == 0:
            needed = len(log.op) * ROW_MEMORY + len(log.failures) * FAILURE_MEMORY
            source.require_memory(needed, f"line {number}")
    return _build(source, log, has_times="Time" in columns)


def _build(source: Source, log: _Log, *, has_times: bool) -> Trace:
    numbers = StreamNumbers(set(log.stream) | {event.stream for event in log.failures})
    failures = tuple(
        RecordedEvent(event.row, event.kind, 0, event.nbytes, numbers.of(event.stream), event.time)
        for event in log.failures
    )
    return build(
        source,
        lambda row: f"line {log.lines[row]}",
        op=log.op,
        id=log.id,
        bytes=log.nbytes,
        stream=numbers.of_all(np.asarray(log.stream, np.uint64)),
        time=log.time if has_times else None,
        metadata={"source": "RMM log", "streams": numbers.handles, "num_failures": len(failures)},
        recorded=Recorded(read_only(np.array(log.address, np.uint64)), failures),
    )


def _cells(line: str) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(",")]


def _handle(cell: str, what: str) -> int:
    if cell == "(nil)":
        return 0
    if not _HEX.fullmatch(cell):
        raise ValueError(f"has the {what} {quoted(cell)}, which is no hexadecimal number of 64 bits")
    return int(cell, 16)


def _size(cell: str) -> int:
    if not (cell.isascii() and cell.isdigit() and len(cell) <= 20) or int(cell) > LARGEST_SIZE:
        raise ValueError(f"has the size {quoted(cell)}, which is no number of bytes up to {LARGEST_SIZE}")
    return int(cell)


def _time(cell: str) -> int:
    if match := _TIME_OF_DAY.fullmatch(cell):
        hours, minutes, seconds, micros = map(int, match.groups())
        return ((hours * 60 + minutes) * 60 + seconds) * 10**6 + micros
    if match := _TIME_SINCE_1970.fullmatch(cell):
        return int(match[1]) * 10**6 + int(match[2])
    raise ValueError(f"has the time {quoted(cell)}, which is not like 14:21:19.998533")
