"""memlake's own trace file: a zip of NumPy arrays, one per column. `numpy.load` can open it, too.

The reader does not trust the file, so it does not use `numpy.load`. It checks every declared size before it unpacks a
byte, and it matches the header of an array against a pattern instead of evaluating it.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memlake.trace import npz_context, npz_record
from memlake.trace.building import build
from memlake.trace.operations import Op
from memlake.units import format_bytes
from memlake.wording import quoted

if TYPE_CHECKING:
    import numpy.typing as npt

    from memlake.trace.context import Context
    from memlake.trace.recorded import Recorded
    from memlake.trace.source import Source
    from memlake.trace.trace import Trace

__all__ = ["read_npz", "write_npz"]

NEEDED = ("op", "id", "bytes", "stream")
OPTIONAL = ("tag", "time")
EXTRAS = (*npz_context.COLUMNS, *npz_record.COLUMNS)
TEXTS = ("tags", "meta", *npz_context.TEXTS, *npz_record.TEXTS)
# A trace has up to fifty members with less than 100 bytes each in the directory. A malicious zip may declare millions.
LARGEST_DIRECTORY = 64 * 1024
LONGEST_HEADER = 1000
LARGEST_TEXT = 64 * 1024**2
# The memory that a row needs while its trace is made, in addition to its bytes in the file: measured 75 bytes.
ROW_MEMORY = 80
# The memory that JSON text needs while its trace is made, as a multiple of its bytes in the file: measured 8.3 for a
# list of empty lists, the worst of the texts that were tried.
TEXT_MEMORY = 10
END_OF_DIRECTORY = struct.Struct("<4s4H2IH")
# The exceptions of zipfile for broken archives; it raises RuntimeError for encrypted ones.
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    struct.error,
    ValueError,
    RuntimeError,
    KeyError,
    IndexError,
    OverflowError,
)

_HEADER = re.compile(
    rb"\{'descr': '([<>|=]?[A-Za-z]\d{0,9})', 'fortran_order': (?:False|True), 'shape': \((\d{1,18},)?\), \}[ ]*\n"
)


def read_npz(source: Source) -> Trace:
    """Reads a trace file.

    Raises:
        TraceError: if the file is no trace, is broken, or declares more bytes than the limit.
    """
    _check_directory(source)
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
            members = _members(source, archive)
            missing = [name for name in NEEDED if name not in members]
            if missing:
                hint = "a trace has op, id, bytes and stream; see docs/reference/trace_format.md"
                raise source.error(f"has no column {', '.join(missing)}", hint=hint)
            _check_memory(source, archive, members)
            arrays = {name: _array(source, archive, members[name]) for name in members}
    except BROKEN as error:
        raise source.error(f"is not a whole zip file: {quoted(str(error))}", hint="copy it again") from error
    tags = _json(source, arrays, "tags", [])
    metadata = _json(source, arrays, "meta", {})
    if not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        raise source.error("must be a JSON list of strings", "member tags")
    if not isinstance(metadata, dict):
        raise source.error("must be a JSON object", "member meta")
    columns = {name: arrays[name] for name in (*NEEDED, *OPTIONAL) if name in arrays}
    recorded, context = _extras(source, arrays)
    return build(
        source,
        lambda row: f"row {row}",
        **columns,
        tags=tags,
        metadata=metadata,
        recorded=recorded,
        context=context,
    )


def _extras(source: Source, arrays: dict[str, npt.NDArray[Any]]) -> tuple[Recorded | None, Context | None]:
    """Returns the record and the context of the trace, if the file has them."""
    texts = {name: _json(source, arrays, name, None) for name in TEXTS[2:] if name in arrays}
    counts = {name: len(arrays[name]) for name in EXTRAS if name in arrays}
    if npz_record.record_memory(counts) > source.memory_limit:
        hint = "raise memory_limit if you trust it"
        raise source.error("has a record that takes more memory than is allowed", "member record.npy", hint)
    try:
        context = npz_context.context_from(arrays, texts)
        num_allocations = int(np.count_nonzero(arrays["op"] == Op.ALLOCATE.value))
        num_stacks = 1 if context is None else len(context.stacks)
        recorded = npz_record.record_from(arrays, texts, len(arrays["op"]), num_allocations, num_stacks)
    except (ValueError, OverflowError) as error:
        raise source.error(f"has members that do not go together: {error}") from None
    return recorded, context


def write_npz(trace: Trace) -> bytes:
    """Returns the bytes of the trace file. The same trace gives the same bytes."""
    arrays: dict[str, npt.NDArray[Any]] = {
        "op": trace.op,
        "id": trace.id,
        "bytes": trace.bytes,
        "stream": _narrow(trace.stream, np.uint8),
        "tag": _narrow(trace.tag, np.uint16),
        "tags": np.array(json.dumps(list(trace.tags))),
        "meta": np.array(json.dumps(trace.metadata, sort_keys=True)),
    }
    if trace.time is not None:
        arrays["time"] = trace.time
    members = [npz_record.record_members(trace.recorded)] if trace.recorded is not None else []
    members += [npz_context.context_members(trace.context)] if trace.context is not None else []
    for columns, texts in members:
        arrays |= columns
        arrays |= {name: np.array(json.dumps(value, sort_keys=True)) for name, value in texts.items()}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, array in arrays.items():
            # The default date of a member is 1980-01-01, so that the same trace gives the same bytes.
            member = zipfile.ZipInfo(f"{name}.npy")
            member.compress_type = zipfile.ZIP_DEFLATED
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            archive.writestr(member, content.getvalue(), compresslevel=6)
    return file.getvalue()


def _narrow(array: npt.NDArray[Any], dtype: type[np.integer[Any]]) -> npt.NDArray[Any]:
    """Converts a column to a smaller type if its values fit; they fit in nearly every trace."""
    fits = len(array) == 0 or int(array.max()) <= np.iinfo(dtype).max
    return array.astype(dtype) if fits else array


def _check_directory(source: Source) -> None:
    """Checks the size of the zip's directory, because `zipfile` would read a directory of any length."""
    place = source.data.rfind(b"PK\5\6")
    if place < 0 or place + END_OF_DIRECTORY.size > len(source.data):
        raise source.error("is not a whole zip file: it has no directory", hint="copy or download it again")
    nbytes = END_OF_DIRECTORY.unpack_from(source.data, place)[5]
    if nbytes > LARGEST_DIRECTORY or source.data[max(place - 20, 0) : place].startswith(b"PK\6\7"):
        raise source.error("is a zip file, but not a trace: its directory is too large", f"byte {place}")


def _members(source: Source, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Returns the members of a trace, and checks that none occurs twice or is larger than the limit."""
    members: dict[str, zipfile.ZipInfo] = {}
    names = {f"{name}.npy": name for name in (*NEEDED, *OPTIONAL, *EXTRAS, *TEXTS)}
    total = 0
    for info in archive.infolist():
        name = names.get(info.filename)
        if name is None:
            continue
        if name in members:
            raise source.error("is there twice", f"member {info.filename}")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise source.error(
                f"is packed with method {info.compress_type}", f"member {info.filename}", "save it with deflate or none"
            )
        total += info.file_size
        if total > source.memory_limit or (name in TEXTS and info.file_size > LARGEST_TEXT):
            raise source.error(
                f"claims to unpack to {format_bytes(info.file_size)}, which is more than is allowed",
                f"member {info.filename}",
                "raise memory_limit if you trust it",
            )
        members[name] = info
    return members


def _check_memory(source: Source, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> None:
    """Checks the memory that the trace will need before a column is unpacked: zeros pack a thousand times."""
    with archive.open(members["op"]) as file:
        count = _header(source, members["op"], file.read(LONGEST_HEADER)).length
    needed = count * ROW_MEMORY + sum(
        info.file_size * (TEXT_MEMORY if name in TEXTS else 1) for name, info in members.items()
    )
    if needed > source.memory_limit:
        raise source.error(
            f"has {count} rows and needs about {format_bytes(needed)} of memory, and "
            f"{format_bytes(source.memory_limit)} are allowed",
            hint="raise memory_limit if you trust it",
        )


class _Header(NamedTuple):
    """The header of an array: its type, the number of its entries, whether it is a text, and where its data begins."""

    descr: str
    length: int
    is_text: bool
    end: int


def _header(source: Source, member: zipfile.ZipInfo, content: bytes) -> _Header:
    """Reads the header of a member that begins with these bytes."""
    place = f"member {member.filename}"
    prefix = content[:12]
    if not prefix.startswith(b"\x93NUMPY") or len(prefix) < 12:
        raise source.error("is no NumPy array", place)
    # The length of the header has two bytes in version 1, and four in later versions.
    begin = 10 if prefix[6] == 1 else 12
    end = begin + int.from_bytes(prefix[8:begin], "little")
    header = content[begin : min(end, begin + LONGEST_HEADER)]
    match = _HEADER.fullmatch(header)
    if match is None:
        raise source.error(f"is no plain array of one dimension: {quoted(header)}", place)
    descr, length = match[1].decode(), match[2]
    is_text = member.filename.removesuffix(".npy") in TEXTS
    if is_text != (length is None) or not re.fullmatch(r"[<>|=]?U\d+" if is_text else r"[<>|=]?[iu][1248]", descr):
        what = "one text" if is_text else "a list of whole numbers"
        raise source.error(f"has type {descr} and is not {what}", place)
    return _Header(descr, 1 if length is None else int(length[:-1]), is_text, end)


def _array(source: Source, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    """One member as an array of one dimension or none."""
    content = archive.read(member)
    descr, count, is_text, end = _header(source, member, content)
    itemsize = (4 if is_text else 1) * int(descr.lstrip("<>|=")[1:])
    if len(content) - end != count * itemsize:
        raise source.error(
            f"claims {count} entries of {itemsize} bytes and has {len(content) - end} bytes",
            f"member {member.filename}",
        )
    if is_text:
        return np.frombuffer(content, np.dtype(descr), 1, end).reshape(()) if itemsize else np.array("")
    return np.frombuffer(content, np.dtype(descr), count, end) if count else np.zeros(0, np.dtype(descr))


def _json(source: Source, arrays: dict[str, npt.NDArray[Any]], name: str, default: Any) -> Any:
    """Returns the JSON value of a member that is one string."""
    if name not in arrays:
        return default
    try:
        return json.loads(str(arrays[name]), parse_int=_parse_int, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise source.error(f"is no JSON: {quoted(str(error))}", f"member {name}.npy") from None


def _parse_int(digits: str) -> int:
    if len(digits) > 40:
        raise ValueError("a number has more than 40 digits")
    return int(digits)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")
