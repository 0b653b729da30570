"""Reads the results of a sweep again: a results file, or a table that ``memlake sweep --output`` wrote.

The file may come from anybody. Every value is checked before a `Sweep` is made of it.
"""

from __future__ import annotations

import csv
import io
import math
import os
import stat
from typing import TYPE_CHECKING, Any

from memlake.errors import ConfigError, MemlakeError, SweepError
from memlake.jobs.answer import Unreadable
from memlake.jobs.labels import RankFile
from memlake.policies import resolve_policy
from memlake.sweeping.result import Sweep, SweepFile
from memlake.sweeping.results_file import FORMAT, ResultsContent
from memlake.sweeping.settings import Setting
from memlake.sweeping.table import COLUMNS, import_pyarrow
from memlake.sweeping.task import key_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["is_sweep_file", "load_sweep"]

Row = dict[str, Any]

_CSV_START = ",".join(COLUMNS).encode()
_PARQUET = b"PAR1"
_ENDING = ".jsonl"
_MAY_BE_EMPTY = ("rank", "limit", "utilization", "failed_event", "modelled_driver_ms", "longest_request_ms")
_ABOUT_FILE = ("rank", "label", "file", "sha256")
_OUTCOMES = ("ok", "oom", "unknown")
_LARGEST = 2**63 - 1
_CUT_OFF = "the file is cut off, or was edited: write it again with memlake sweep"


def is_sweep_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file holds, or claims to hold, results of a sweep. A name that ends with ``.jsonl`` claims it."""
    try:
        if not os.path.isfile(path):  # noqa: PTH113  takes any name
            return False
        if os.fsdecode(path).endswith(_ENDING):
            return True
        with open(path, "rb") as file:  # noqa: PTH123
            head = file.read(len(_CSV_START))
            if head == _CSV_START or head.startswith(FORMAT):
                return True
            if not head.startswith(_PARQUET):
                return False
            # The names of the columns are in the last part of the file, as they are.
            file.seek(max(file.seek(0, os.SEEK_END) - 2**16, 0))
            tail = file.read()
            return b"sha256" in tail and b"peak_held" in tail
    except (OSError, ValueError):
        return False


def load_sweep(path: str | os.PathLike[str]) -> Sweep:
    """Reads the results of a sweep from a results file, or from a table in CSV or Parquet.

    Of a results file, the results of the last sweep are read. A table does not name files that could not be read.

    Raises:
        SweepError: if the file cannot be read, is no such file, is damaged, or lacks results.
        ConfigError: if pyarrow is not installed, for Parquet.
    """
    name = os.fsdecode(path)
    content = _content_of(name)
    try:
        if content.startswith(FORMAT) or name.endswith(_ENDING):
            return _of_results(ResultsContent.parsed(content))
        return _of_table(_parquet_rows(name) if content.startswith(_PARQUET) else _csv_rows(content))
    except ConfigError:  # a ValueError, too
        raise
    except ValueError as error:
        what, hint = error.args if len(error.args) == 2 else (f"is damaged: {error}", _CUT_OFF)
        raise SweepError(f"the file {name[:200]!r} {what}", hint) from None


def _content_of(name: str) -> bytes:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with open(descriptor, "rb") as file:  # noqa: PTH123  a descriptor has no path
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("it is no regular file")
            return file.read()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise SweepError(
            f"the file {name[:200]!r} cannot be read: {why}", "name a file that you may read, of memlake sweep"
        ) from None


def _of_results(content: ResultsContent) -> Sweep:
    """Makes a sweep of the last description in a results file and the rows that belong to it."""
    given = content.sweep
    if given is None:
        raise ValueError("has no results yet", "run the sweep again, it goes on from where it was")
    try:
        unreadable = {str(path): str(reason) for path, reason in given["unreadable"].items()}
        settings = [_setting(one["configuration"], one["capacity"], one["limit"]) for one in given["settings"]]
        every = [(RankFile(one["file"], one["label"], one["rank"]), one["sha256"]) for one in given["files"]]
        good = [(file, digest) for file, digest in every if file.path not in unreadable]
        known = (given["basis"], given["device"], given["events"])
        keys = {
            (digest, place): key_of(known[0], digest, known[1], known[2], setting)
            for _, digest in good
            for place, setting in enumerate(given["settings"])
        }
        _require_all(sum(key in content.rows for key in keys.values()), len(keys))
        return Sweep(
            files=tuple(
                SweepFile(
                    _checked_file(file),
                    _text(digest),
                    tuple(_checked(content.rows[keys[digest, place]]) for place in range(len(settings))),
                )
                for file, digest in good
            ),
            settings=tuple(settings),
            events=_text(given["events"]),
            unreadable=tuple(Unreadable(file, unreadable[file.path]) for file, _ in every if file.path in unreadable),
            numbered_by=_text(given["numbered_by"]),
            num_ignored=_whole(given["num_ignored"]),
            ignored=tuple(map(_text, given["ignored"])),
            num_repeated=_whole(given["num_repeated"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its description of the sweep has no usable {error}") from None


def _of_table(rows: list[Row]) -> Sweep:
    """Makes a sweep of the rows of a table: every file must have every setting once."""
    if not rows:
        raise ValueError("has no results", "sweep files that can be read")
    files: dict[RankFile, tuple[str, dict[Setting, Row]]] = {}
    settings: dict[Setting, None] = {}
    known: dict[tuple[Any, ...], Setting] = {}
    for row in map(_checked, rows):
        names = (row["policy"], row["options"], row["capacity"], row["limit"])
        if names not in known:
            configuration = ",".join(filter(None, names[:2]))
            known[names] = _setting(configuration, names[2], names[3])
        setting = known[names]
        settings[setting] = None
        file = _checked_file(RankFile(row["file"], row["label"], row["rank"]))
        of_file = files.setdefault(file, (row["sha256"], {}))[1]
        if setting in of_file:
            raise ValueError(f"it has {setting.title} of {file.title} twice")
        of_file[setting] = {name: row[name] for name in COLUMNS if name not in _ABOUT_FILE}
    _require_all(len(rows), len(files) * len(settings))
    events = {row["events"] for row in rows}
    if len(events) > 1:
        raise ValueError("its rows have different events")
    return Sweep(
        files=tuple(
            SweepFile(file, digest, tuple(of_file[setting] for setting in settings))
            for file, (digest, of_file) in files.items()
        ),
        settings=tuple(settings),
        events=events.pop(),
        numbered_by="the column rank" if all(file.number is not None for file in files) else "",
    )


def _require_all(found: int, wanted: int) -> None:
    if wanted == 0:
        raise ValueError("has no results", "sweep files that can be read")
    if found < wanted:
        raise ValueError(
            f"has {found} of {wanted} results", "run the same sweep again: with its results file it goes on from there"
        )


def _csv_rows(content: bytes) -> list[Row]:
    text = content.decode(errors="surrogateescape")
    if not text.startswith(",".join(COLUMNS)):
        raise ValueError("is no table of a sweep", "name a file that memlake sweep wrote with --results or --output")
    if not text.endswith("\n"):
        raise ValueError("its last line is not whole")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        next(reader)
        return [_csv_row(cells, reader.line_num) for cells in reader]
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from None


def _csv_row(cells: list[str], line: int) -> Row:
    if len(cells) != len(COLUMNS):
        raise ValueError(f"line {line} has {len(cells)} cells and not {len(COLUMNS)}")
    try:
        return {
            name: None if not cell and kind != "string" else _READERS[kind](cell)
            for (name, kind), cell in zip(COLUMNS.items(), cells, strict=True)
        }
    except (KeyError, ValueError, OverflowError):
        raise ValueError(f"line {line} has a cell that is not what a sweep writes") from None


_READERS: Mapping[str, Any] = {
    "int64": int,
    "float64": float,
    "string": str,
    "bool_": {"True": True, "False": False}.__getitem__,
}


def _parquet_rows(name: str) -> list[Row]:
    pyarrow, parquet = import_pyarrow("reading")
    try:
        table = parquet.read_table(name, columns=list(COLUMNS))
        found: list[Row] = table.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        first = (str(error).splitlines() or [""])[0][:120]
        raise ValueError(f"pyarrow cannot read it ({first})") from None
    if table.column_names != list(COLUMNS):
        missing = [column for column in COLUMNS if column not in table.column_names]
        raise ValueError(f"it has no column {', '.join(missing)}")
    return found


def _setting(configuration: Any, capacity: Any, limit: Any) -> Setting:
    try:
        options = resolve_policy(_text(configuration))
    except MemlakeError as error:
        raise ValueError(
            f"has a policy that this memlake does not know: {str(error)[:120]}", "sweep the files again"
        ) from None
    if _whole(capacity) == 0:
        raise ValueError("a device has no memory")
    return Setting(options, capacity, None if limit is None else _whole(limit))


def _checked_file(file: RankFile) -> RankFile:
    _text(file.path)
    _text(file.label)
    if file.number is not None:
        _whole(file.number)
    return file


def _checked(row: Row) -> Row:
    """Returns a row whose values have the types of their columns.

    Raises:
        ValueError: if one has not.
    """
    for name, kind in COLUMNS.items():
        if name in _ABOUT_FILE and name not in row:
            continue
        value = row.get(name)
        if value is None and name in _MAY_BE_EMPTY:
            continue
        try:
            _CHECKS[kind](value)
        except (TypeError, ValueError):
            raise ValueError(f"its column {name!r} has the value {str(value)[:60]!r}") from None
    if row["outcome"] not in _OUTCOMES:
        raise ValueError(f"its column 'outcome' has the value {row['outcome'][:60]!r}")
    return row


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("it has a number where a text must be")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise ValueError("it has a size or a count that is none")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not (math.isfinite(value) and value >= 0):
        raise ValueError("it has a time or a share that is none")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("it has a truth value that is none")
    return value


_CHECKS: Mapping[str, Any] = {"int64": _whole, "float64": _number, "string": _text, "bool_": _truth}
