"""The text form of a trace: one line per row, for people, for diffs and for programs without NumPy."""

from __future__ import annotations

import io
from array import array
from typing import TYPE_CHECKING

from memlake.trace.building import build
from memlake.trace.columns import MOST_STREAMS, WITH_BYTES
from memlake.trace.losses import lost_context, lost_metadata
from memlake.trace.operations import Op
from memlake.units import LARGEST_SIZE, format_bytes
from memlake.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlake.trace.source import Source
    from memlake.trace.trace import Trace

__all__ = ["lost_in_text", "read_text", "write_text"]

# The memory that a row needs while its trace is made: measured 93 bytes for rows that allocate.
ROW_MEMORY = 100
# The memory is checked once in so many rows.
ROWS_BETWEEN_CHECKS = 2**16
# A longer line is not a row of a trace; the file may be a large one without line ends.
LONGEST_LINE = 10_000
# By letter: the operation, the fewest and the most numbers after the letter, and the usage for messages.
FORMS = {
    b"a": (Op.ALLOCATE, 2, 3, "a ID BYTES [STREAM]"),
    b"f": (Op.FREE, 1, 2, "f ID [STREAM]"),
    b"r": (Op.RECORD_STREAM, 2, 2, "r ID STREAM"),
    b"d": (Op.EVENT_DONE, 1, 1, "d ID"),
    b"s": (Op.STEP, 1, 1, "s NUMBER"),
    b"y": (Op.SYNCHRONIZE, 0, 0, "y"),
    b"e": (Op.EMPTY_CACHE, 0, 0, "e"),
    b"t": (Op.TRIM, 1, 1, "t BYTES"),
    b"p": (Op.PREALLOCATE, 1, 2, "p BYTES [STREAM]"),
    b"g": (Op.RELEASE_POOL, 1, 1, "g BYTES"),
}

# The line of each operation.
LINES = {
    Op.ALLOCATE: "a {id} {nbytes} {stream}\n",
    Op.FREE: "f {id}\n",
    Op.FREE_ON: "f {id} {stream}\n",
    Op.RECORD_STREAM: "r {id} {stream}\n",
    Op.EVENT_DONE: "d {id}\n",
    Op.STEP: "s {id}\n",
    Op.SYNCHRONIZE: "y\n",
    Op.EMPTY_CACHE: "e\n",
    Op.TRIM: "t {nbytes}\n",
    Op.PREALLOCATE: "p {nbytes} {stream}\n",
    Op.RELEASE_POOL: "g {nbytes}\n",
}


def read_text(source: Source) -> Trace:
    """Reads the text form.

    Raises:
        TraceError: for the first line that is wrong, with its number and content.
    """
    op, id, nbytes, stream = array("B"), array("Q"), array("Q"), array("H")
    lines = array("Q")
    for number, line in enumerate(io.BytesIO(source.data), start=1):
        # A line that is too long is refused without splitting it.
        words = line.split(b"#", 1)[0].split() if len(line) <= LONGEST_LINE else [b"?"]
        if not words:
            continue
        try:
            form = FORMS.get(words[0])
            if form is None:
                raise _BadLineError("is not a row", "a row is one of " + ", ".join(form[3] for form in FORMS.values()))
            operation, fewest, most, usage = form
            if not fewest <= len(words) - 1 <= most:
                raise _BadLineError(f"must be {usage}")
            numbers = [_number(word) for word in words[1:]]
            if operation is Op.FREE and len(numbers) == 2:
                operation = Op.FREE_ON
            if operation in (Op.TRIM, Op.PREALLOCATE, Op.RELEASE_POOL):
                numbers.insert(0, 0)  # these rows have no id
            names_stream = operation in (Op.RECORD_STREAM, Op.FREE_ON) or len(numbers) == 3
            if names_stream and numbers[-1] >= MOST_STREAMS:
                raise _BadLineError(f"names stream {numbers[-1]}; streams are numbered below {MOST_STREAMS}")
            if operation in WITH_BYTES and numbers[1] > LARGEST_SIZE:
                raise _BadLineError(f"asks for {numbers[1]} bytes, which is more than any memory ({LARGEST_SIZE})")
        except _BadLineError as error:
            content = quoted(line[:LONGEST_LINE].strip().decode("utf-8", "backslashreplace"))
            raise source.error(f"{content} {error.args[0]}", f"line {number}", error.args[1]) from None
        op.append(operation)
        id.append(numbers[0] if numbers else 0)
        nbytes.append(numbers[1] if operation in WITH_BYTES else 0)
        stream.append(numbers[-1] if names_stream else 0)
        lines.append(number)
        if len(op) % ROWS_BETWEEN_CHECKS == 0:
            source.require_memory(len(op) * ROW_MEMORY, f"line {number}")
    return build(source, lambda row: f"line {lines[row]}", op=op, id=id, bytes=nbytes, stream=stream)


def lost_in_text(trace: Trace) -> list[str]:
    """Returns what the text form cannot hold of a trace: the rest of a sentence about the file, one each."""
    lost = [] if trace.time is None else ["leaves out times"]
    lost += ["leaves out tags"] if trace.tags else []
    return lost + lost_metadata(trace) + lost_context(trace)


def write_text(trace: Trace) -> Iterator[str]:
    """Returns the lines of the text form. It has no times, tags or metadata."""
    yield f"# memlake trace: {len(trace)} rows, peak live {format_bytes(trace.peak_live)}\n"
    columns = (trace.op.tolist(), trace.id.tolist(), trace.bytes.tolist(), trace.stream.tolist())
    for op, id, nbytes, stream in zip(*columns, strict=True):
        yield LINES[op].format(id=id, nbytes=nbytes, stream=stream)


class _BadLineError(Exception):
    """A line is wrong: the reason and the hint."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason, hint)


def _number(word: bytes) -> int:
    # bytes.isdigit accepts only the ten digits; int() also accepts signs, underscores and any number of digits.
    if not word.isdigit() or len(word) > 20 or (number := int(word)) >= 2**64:
        raise _BadLineError(
            f"has {quoted(word.decode('utf-8', 'backslashreplace'))}, which is no whole number below 2^64"
        )
    return number
