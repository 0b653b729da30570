"""The Parquet form of a trace, for programs that read tables."""

from __future__ import annotations

import io
import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

from memlake.errors import ConfigError
from memlake.trace.building import build
from memlake.trace.losses import lost_context

if TYPE_CHECKING:
    from typing import BinaryIO

    from memlake.trace.source import Source
    from memlake.trace.trace import Trace

__all__ = ["lost_in_parquet", "read_parquet", "write_parquet"]

_COLUMNS = ("op", "id", "bytes", "stream", "tag")


def lost_in_parquet(trace: Trace) -> list[str]:
    """Returns what the Parquet form cannot hold of a trace: the rest of a sentence about the file, one each."""
    return lost_context(trace)


def write_parquet(trace: Trace, file: BinaryIO) -> None:
    """Writes the columns; tags as text, the metadata as JSON under the key ``memlake`` of the schema.

    The key ``memlake_tags`` has all tags in their order, also those that no row has.

    Raises:
        ConfigError: if pyarrow is not installed.
    """
    pyarrow, parquet = _import_pyarrow()
    tags = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array(trace.tag if trace.tags else trace.tag[:0], pyarrow.uint32()).cast(pyarrow.int32()),
        pyarrow.array(list(trace.tags), pyarrow.string()),
    )
    columns = {
        "op": pyarrow.array(trace.op),
        "id": pyarrow.array(trace.id),
        "bytes": pyarrow.array(trace.bytes),
        "stream": pyarrow.array(trace.stream),
        "tag": tags if trace.tags else pyarrow.nulls(len(trace), pyarrow.string()),
    }
    if trace.time is not None:
        columns["time"] = pyarrow.array(trace.time)
    metadata = {"memlake": json.dumps(trace.metadata, sort_keys=True), "memlake_tags": json.dumps(list(trace.tags))}
    parquet.write_table(pyarrow.table(columns, metadata=metadata), file, compression="zstd")


def read_parquet(source: Source) -> Trace:
    """Reads a trace that memlake wrote as Parquet.

    Raises:
        TraceError: if it is another table, or damaged.
        ConfigError: if pyarrow is not installed.
    """
    pyarrow, parquet = _import_pyarrow()
    try:
        file = parquet.ParquetFile(io.BytesIO(source.data))
        known = file.schema_arrow.metadata or {}
        unpacked = sum(file.metadata.row_group(number).total_byte_size for number in range(file.num_row_groups))
        if unpacked > source.memory_limit:
            raise source.error(
                f"unpacks to {unpacked} bytes, and {source.memory_limit} are allowed",
                hint="raise memory_limit if you trust it",
            )
        if b"memlake" not in known or not set(_COLUMNS) <= set(file.schema_arrow.names):
            raise source.error("is a Parquet file, but no trace that memlake wrote", hint="load what it was made of")
        table = file.read()
        columns = {name: table[name].to_numpy() for name in (*_COLUMNS[:4], "time") if name in table.column_names}
        metadata = json.loads(known[b"memlake"])
        tags = json.loads(known.get(b"memlake_tags", b"[]"))
        texts = table["tag"].to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        raise source.error(f"is no whole Parquet file: {str(error)[:200]}", hint="copy or download it again") from None
    if not isinstance(tags, list) or not isinstance(metadata, dict):
        raise source.error("is a Parquet file with damaged metadata")
    places = {text: place for place, text in reversed(list(enumerate(map(str, tags))))}
    tag = [places.setdefault(text or "", len(places)) for text in texts] if tags else None
    return build(
        source,
        lambda row: f"row {row}",
        op=columns["op"],
        id=columns["id"],
        bytes=columns["bytes"],
        stream=columns["stream"],
        time=columns.get("time"),
        tag=tag,
        tags=list(places) if tag is not None and len(places) > len(tags) else [str(text) for text in tags],
        metadata=metadata,
    )


def _import_pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError("Parquet needs pyarrow; hint: pip install 'memlake[parquet]'") from error
