"""Writes a trace as a Parquet file, for programs that read tables."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

from memlake.errors import ConfigError

if TYPE_CHECKING:
    from typing import BinaryIO

    from memlake.trace.trace import Trace

__all__ = ["write_parquet"]


def write_parquet(trace: Trace, file: BinaryIO) -> None:
    """Writes the columns; tags as text, the metadata as JSON under the key ``memlake`` of the schema.

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
    metadata = {"memlake": json.dumps(trace.metadata, sort_keys=True)}
    parquet.write_table(pyarrow.table(columns, metadata=metadata), file, compression="zstd")


def _import_pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError("writing Parquet needs pyarrow: pip install memlake[parquet]") from error
