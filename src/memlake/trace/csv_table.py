"""The CSV form of a trace: one line per row with the names of the operations, for spreadsheets and other programs."""

from __future__ import annotations

import csv
import io
import re
from array import array
from typing import TYPE_CHECKING

from memlake.trace.building import build
from memlake.trace.columns import MOST_STREAMS
from memlake.trace.losses import lost_context, lost_metadata
from memlake.trace.operations import Op
from memlake.trace.text import LONGEST_LINE
from memlake.units import LARGEST_SIZE
from memlake.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlake.trace.source import Source
    from memlake.trace.trace import Trace

__all__ = ["is_csv_line", "lost_in_csv", "read_csv", "write_csv"]

COLUMNS = ("op", "id", "bytes", "stream")
MORE = ("time", "tag")
_NAMES = {op: op.name.lower() for op in Op}
_OPS = {name: op for op, name in _NAMES.items()}
_LARGEST_TIME = 2**63 - 1
# What no text file has; memlake takes a file with such characters for a damaged one.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_REPLACED = "\ufffd"


def is_csv_line(line: str) -> bool:
    """Returns True if a file that begins with this line is a trace as CSV."""
    names = [cell.strip() for cell in line.split(",")]
    return tuple(names[: len(COLUMNS)]) == COLUMNS and set(names[len(COLUMNS) :]) <= set(MORE)


def lost_in_csv(trace: Trace) -> list[str]:
    """Returns what the CSV form cannot hold of a trace: the rest of a sentence about the file, one each."""
    lost = lost_metadata(trace)
    if any(map(_CONTROL.search, trace.tags)):
        lost.append("leaves out control characters in tags")
    return lost + lost_context(trace)


def write_csv(trace: Trace) -> Iterator[str]:
    """Returns the lines of the table. It has times and tags only if the trace has them."""
    names = [*COLUMNS, *(["time"] if trace.time is not None else []), *(["tag"] if trace.tags else [])]
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    columns: list[list[object]] = [
        [_NAMES[Op(op)] for op in trace.op.tolist()],
        trace.id.tolist(),
        trace.bytes.tolist(),
        trace.stream.tolist(),
    ]
    if trace.time is not None:
        columns.append(trace.time.tolist())
    if trace.tags:
        tags = [_CONTROL.sub(_REPLACED, tag) for tag in trace.tags]
        columns.append([tags[tag] for tag in trace.tag.tolist()])
    for row in (names, *zip(*columns, strict=True)):
        writer.writerow(row)
        yield line.getvalue()
        line.seek(0)
        line.truncate()


def read_csv(source: Source) -> Trace:
    """Reads the table.

    Raises:
        TraceError: for the first line that is wrong, with its number and content.
    """
    text = source.data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    reader = csv.reader(io.StringIO(text, newline=""))
    op, id, nbytes, stream, time = array("B"), array("Q"), array("Q"), array("H"), array("q")
    tag, lines = array("Q"), array("Q")
    tags: dict[str, int] = {}
    names: list[str] = []
    try:
        for cells in reader:
            if not cells:
                continue
            if not names:
                names = [cell.strip() for cell in cells]
                continue
            row = _row(cells, names)
            op.append(row["op"])
            id.append(row["id"])
            nbytes.append(row["bytes"])
            stream.append(row["stream"])
            time.append(row.get("time", 0))
            if "tag" in names:
                tag.append(tags.setdefault(cells[names.index("tag")], len(tags)))
            lines.append(reader.line_num)
    except (csv.Error, ValueError) as error:
        raise source.error(str(error), f"line {reader.line_num}", "is the file cut off?") from None
    return build(
        source,
        lambda row: f"line {lines[row]}",
        op=op,
        id=id,
        bytes=nbytes,
        stream=stream,
        time=time if "time" in names else None,
        tag=tag if "tag" in names else None,
        tags=list(tags),
    )


def _row(cells: list[str], names: list[str]) -> dict[str, int]:
    """Returns the numbers of a line."""
    if len(cells) != len(names):
        raise ValueError(f"has {len(cells)} cells and not {len(names)}")
    numbers: dict[str, int] = {}
    for name, cell in zip(names, cells, strict=True):
        if name == "tag":
            if len(cell) > LONGEST_LINE:
                raise ValueError("has a tag that is too long")
        elif name == "op":
            if cell not in _OPS:
                raise ValueError(f"has the operation {quoted(cell)}; known: {', '.join(_OPS)}")
            numbers["op"] = _OPS[cell].value
        else:
            numbers[name] = _number(name, cell)
    return numbers


def _number(name: str, cell: str) -> int:
    largest = {"id": 2**64 - 1, "bytes": LARGEST_SIZE, "stream": MOST_STREAMS - 1, "time": _LARGEST_TIME}[name]
    is_negative = name == "time" and cell.startswith("-")
    digits = cell[1:] if is_negative else cell
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20) or int(digits) > largest + is_negative:
        raise ValueError(f"has the {name} {quoted(cell)}, which is no whole number up to {largest}")
    return int(cell)
