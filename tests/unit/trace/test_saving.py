import gzip
import sys

import pytest

from memlake import ConfigError, Trace
from memlake.trace import Op


@pytest.fixture
def trace():
    return Trace([Op.ALLOCATE, Op.FREE], [0, 0], [100, 0], time=[5, 6], tag=[1, 0], tags=["", "mm"], metadata={"a": 1})


def test_the_name_says_the_format(trace, tmp_path):
    for name in ("a.npz", "a.txt", "a.txt.gz"):
        trace.save(tmp_path / name)
        assert Trace.load(tmp_path / name).bytes.tolist() == [100, 0]
    trace.save(str(tmp_path / "b.npz"))
    assert Trace.load(tmp_path / "b.npz") == trace


def test_packed_text_is_the_text(trace, tmp_path):
    trace.save(tmp_path / "a.txt")
    trace.save(tmp_path / "a.txt.gz")
    assert gzip.decompress((tmp_path / "a.txt.gz").read_bytes()) == (tmp_path / "a.txt").read_bytes()


@pytest.mark.parametrize("ending", [".npz", ".txt", ".txt.gz"])
def test_equal_traces_give_equal_bytes(trace, tmp_path, ending):
    trace.save(tmp_path / f"a{ending}")
    trace[:].save(tmp_path / f"b{ending}")
    assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


@pytest.mark.parametrize("name", ["trace", "trace.json", "trace.gz", "npz", ""])
def test_a_name_that_says_no_format_is_refused(trace, tmp_path, name):
    with pytest.raises(ConfigError, match=r"end it with \.npz, \.txt, \.txt\.gz, \.parquet"):
        trace.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_whole(trace, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    trace.save(path)
    assert "old" not in path.read_text()
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_save_leaves_the_old_file(trace, tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    path.write_text("old")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"pip install .memlake\[parquet\]"):
        trace.save(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_an_os_error(trace, tmp_path):
    with pytest.raises(FileNotFoundError):
        trace.save(tmp_path / "nowhere" / "a.npz")


def test_parquet_is_for_other_programs(trace, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (the extra 'parquet')")
    trace.save(tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet")
    assert table.to_pydict() == {
        "op": [0, 1],
        "id": [0, 0],
        "bytes": [100, 0],
        "stream": [0, 0],
        "tag": ["mm", ""],
        "time": [5, 6],
    }
    assert table.schema.metadata[b"memlake"] == b'{"a": 1}'


def test_parquet_of_a_trace_without_tags_and_times(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (the extra 'parquet')")
    Trace([Op.ALLOCATE], [0], [1]).save(tmp_path / "a.parquet")
    assert parquet.read_table(tmp_path / "a.parquet")["tag"].to_pylist() == [None]
