"""The table of a sweep: CSV and Parquet."""

import csv
import sys

import pytest

import memlake
from memlake.errors import ConfigError
from memlake.sweeping.table import COLUMNS, check_table, save_table


@pytest.fixture
def found(four):
    return memlake.sweep(four, ["64MiB", "256MiB"], ["lake", "driver"])


def expected(found):
    return [
        {"rank": file.file.number, "label": file.label, "file": file.file.path, "sha256": file.digest} | row
        for file in found
        for row in file.rows
    ]


def test_a_csv_file_has_one_row_per_file_and_setting(found, tmp_path):
    save_table(found, tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    wanted = [{key: "" if value is None else str(value) for key, value in row.items()} for row in expected(found)]
    assert rows == wanted
    assert len(rows) == 16
    assert list(rows[0]) == list(COLUMNS)


def test_a_parquet_file_has_the_same_rows(found, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    save_table(found, tmp_path / "table.parquet")
    assert parquet.read_table(tmp_path / "table.parquet").to_pylist() == expected(found)


def test_the_same_sweep_gives_the_same_bytes(found, four, tmp_path):
    again = memlake.sweep(four, ["64MiB", "256MiB"], ["lake", "driver"])
    for one, sweep in (("a.csv", found), ("b.csv", again)):
        save_table(sweep, tmp_path / one)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_another_ending_is_refused(found, tmp_path):
    with pytest.raises(ConfigError, match=r"hint: end it with .csv or .parquet"):
        check_table(tmp_path / "table.xlsx")


def test_parquet_without_pyarrow_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"needs pyarrow; hint: pip install 'memlake\[parquet\]'"):
        check_table("table.parquet")


def test_a_table_that_cannot_be_written_leaves_nothing(found, tmp_path):
    (tmp_path / "table.csv").mkdir()
    with pytest.raises(OSError, match="directory"):
        save_table(found, tmp_path / "table.csv")
    assert [path.name for path in tmp_path.iterdir() if path.name != "run"] == ["table.csv"]
