"""The results of a sweep as a file for other programs: CSV or Parquet, one row per file and setting."""

from __future__ import annotations

import csv
import io
import secrets
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from memlake.errors import ConfigError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from memlake.sweeping.result import Sweep

__all__ = ["COLUMNS", "check_table", "import_pyarrow", "save_table"]

COLUMNS = {
    "rank": "int64",
    "label": "string",
    "file": "string",
    "sha256": "string",
    "policy": "string",
    "options": "string",
    "capacity": "int64",
    "limit": "int64",
    "events": "string",
    "outcome": "string",
    "peak_live": "int64",
    "peak_requested": "int64",
    "peak_allocated": "int64",
    "peak_held": "int64",
    "utilization": "float64",
    "failed_event": "int64",
    "num_ooms": "int64",
    "num_alloc_retries": "int64",
    "host_waits": "int64",
    "memory_calls": "int64",
    "modelled_driver_ms": "float64",
    "longest_request_ms": "float64",
    "approximate": "bool_",
    "rows": "int64",
    "history": "string",
    "sentence": "string",
}
"""The columns and their types, by the names of pyarrow. An empty cell of a CSV file is null."""


def check_table(path: str | os.PathLike[str]) -> None:
    """Checks the name of a table before the sweep begins.

    Raises:
        ConfigError: if the ending of the name is unknown, or pyarrow is not installed for Parquet.
    """
    _writer_of(Path(path))


def save_table(found: Sweep, path: str | os.PathLike[str]) -> None:
    """Writes one row per file and setting. The ending of the name selects the format: ``.csv`` or ``.parquet``.

    The file appears when it is complete; an existing file is replaced. The same sweep gives the same rows.

    Raises:
        ConfigError: if the ending is unknown, or pyarrow is not installed for Parquet.
        OSError: if the file cannot be written.
    """
    target = Path(path)
    write = _writer_of(target)
    rows = [
        {"rank": file.file.number, "label": file.label, "file": file.file.path, "sha256": file.digest} | row
        for file in found.files
        for row in file.rows
    ]
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with part.open("xb") as opened:
            write(rows, opened)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _writer_of(target: Path) -> Callable[[list[dict[str, Any]], BinaryIO], None]:
    if target.name.endswith(".csv"):
        return _write_csv
    if target.name.endswith(".parquet"):
        import_pyarrow("writing")
        return _write_parquet
    raise ConfigError(f"{target.name[:80]!r} does not say in which format to write; hint: end it with .csv or .parquet")


def _write_csv(rows: list[dict[str, Any]], file: BinaryIO) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    file.write(text.getvalue().encode(errors="surrogateescape"))  # names of files need not be UTF-8


def _write_parquet(rows: list[dict[str, Any]], file: BinaryIO) -> None:
    pyarrow, parquet = import_pyarrow("writing")
    schema = pyarrow.schema([(name, getattr(pyarrow, kind)()) for name, kind in COLUMNS.items()])
    shown = [row | {"file": row["file"].encode(errors="surrogateescape").decode(errors="replace")} for row in rows]
    parquet.write_table(pyarrow.Table.from_pylist(shown, schema), file, compression="zstd")


def import_pyarrow(action: str) -> tuple[Any, Any]:
    """Returns the modules ``pyarrow`` and ``pyarrow.parquet``.

    Args:
        action: what they are needed for: ``"writing"`` or ``"reading"``.

    Raises:
        ConfigError: if they are not installed.
    """
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError(f"{action} Parquet needs pyarrow; hint: pip install 'memlake[parquet]'") from error
