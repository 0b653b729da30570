"""Results of sweeps are read again as the sweep that wrote them, and a file that is not whole is refused."""

import json
import zlib

import pytest

import memlake
from helpers.sweeps import write_ranks
from memlake.errors import ConfigError, SweepError
from memlake.sweeping import is_sweep_file, load_sweep
from memlake.sweeping.table import COLUMNS, save_table

SIZES, POLICIES = ["256MiB", "1GiB"], ["lake", "caching", "stitch,frag_limit:64MiB"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep of three files, of which one cannot be read; its results file and its tables."""
    folder = write_ranks(tmp_path_factory.mktemp("loading") / "run", 3, 150)
    (folder / "rank3.npz").write_bytes(b"PK\3\4 no trace")
    results = folder.parent / "results.jsonl"
    found = memlake.sweep(folder, SIZES, POLICIES, results=results)
    save_table(found, folder.parent / "table.csv")
    return found, results, folder.parent / "table.csv"


@pytest.fixture
def copy(swept, tmp_path):
    """Copies one of the files, so that a test may change it."""

    def make(which, change=lambda content: content):
        path = tmp_path / swept[which].name
        path.write_bytes(change(swept[which].read_bytes()))
        return path

    return make


def checked(line):
    """A line of a results file, as it would be written."""
    body = json.dumps(line).encode()[1:] + b"\n"
    return b'{"check": "%08x", ' % zlib.crc32(body) + body


def test_a_results_file_gives_the_same_sweep(swept):
    found, results, _ = swept
    assert is_sweep_file(results)
    assert load_sweep(results) == found
    assert [one.file.label for one in load_sweep(results).unreadable] == ["3"]


def test_a_table_gives_the_same_files_and_figures(swept):
    found, _, table = swept
    assert is_sweep_file(table)
    loaded = load_sweep(table)
    assert (loaded.files, loaded.settings, loaded.events) == (found.files, found.settings, found.events)
    assert loaded.best == found.best
    assert loaded.title == found.title == "3 ranks"


def test_a_parquet_table_gives_the_same(swept, tmp_path):
    pytest.importorskip("pyarrow")
    found, _, table = swept
    path = tmp_path / "table.parquet"
    save_table(found, path)
    assert is_sweep_file(path)
    assert load_sweep(path) == load_sweep(table)


def test_the_last_of_several_sweeps_is_read(swept, copy):
    path = copy(1)
    folder = swept[1].parent / "run"
    memlake.sweep(folder, SIZES[1:], "lake", results=path)
    assert [one.title for one in load_sweep(path).settings] == ["lake on 1 GiB"]
    memlake.sweep(folder, SIZES, POLICIES, results=path)
    assert load_sweep(path) == swept[0]


def test_files_that_are_no_results_are_left_to_others(tmp_path):
    names = {"a.csv": b"op,id,bytes,stream\n", "b.parquet": b"PAR1....PAR1", "c.npz": b"PK\3\4", "d": b""}
    for name, content in names.items():
        (tmp_path / name).write_bytes(content)
        assert not is_sweep_file(tmp_path / name)
    assert not is_sweep_file(tmp_path)
    assert not is_sweep_file(tmp_path / "nothing.jsonl")
    assert not is_sweep_file("a\0b")


def test_a_results_file_that_lacks_results_is_refused_with_their_number(copy):
    for cut in (1, 2, 5, 9):
        path = copy(1, lambda content, cut=cut: b"".join(content.splitlines(keepends=True)[:-cut]))
        with pytest.raises(SweepError, match=r"has \d+ of \d+ results; hint: run the same sweep again"):
            load_sweep(path)


def test_a_results_file_of_a_sweep_that_has_only_begun_is_refused(copy):
    path = copy(1, lambda content: content.splitlines(keepends=True)[0])
    with pytest.raises(SweepError, match="has no results yet; hint: run the sweep again"):
        load_sweep(path)


def test_a_cut_anywhere_is_a_sentence_with_a_hint(copy):
    for which in (1, 2):
        whole = copy(which).read_bytes()
        # A results file whose last line is torn still has all rows of its sweep: the last line describes it once more.
        for length in range(0, len(whole) - 1, 97):
            path = copy(which, lambda content, length=length: content[:length])
            if not is_sweep_file(path):
                continue
            with pytest.raises(SweepError, match="; hint: "):
                load_sweep(path)


def test_a_file_of_another_program_is_refused(tmp_path):
    for content in (b"", b"{}\n", b'{"a": 1}\n{"b": 2}\n', b"\x00\xff" * 100, b"hello\n"):
        path = tmp_path / "other.jsonl"
        path.write_bytes(content)
        with pytest.raises(SweepError, match="no results file of a sweep; hint: name a file that memlake sweep"):
            load_sweep(path)


def test_a_file_of_another_version_is_refused(copy):
    path = copy(1, lambda content: content.replace(b'"version": 2', b'"version": 9', 1))
    with pytest.raises(SweepError, match="of another version of memlake; hint: "):
        load_sweep(path)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("outcome", "splendid"),
        ("peak_held", "-5"),
        ("peak_held", "many"),
        ("peak_held", ""),
        ("modelled_driver_ms", "nan"),
        ("modelled_driver_ms", "inf"),
        ("approximate", "perhaps"),
        ("policy", "magic"),
        ("options", "frag_limit:banana"),
        ("capacity", "0"),
        ("rank", "1.5"),
        ("peak_held", "9" * 30),
    ],
)
def test_a_cell_that_no_sweep_writes_is_refused(copy, column, value):
    def change(content):
        header, first, *rest = content.decode().split("\n")
        cells = first.split(",")
        cells[list(COLUMNS).index(column)] = value
        return "\n".join([header, ",".join(cells), *rest]).encode()

    with pytest.raises(SweepError, match="; hint: "):
        load_sweep(copy(2, change))


def test_a_result_that_is_there_twice_is_refused(copy):
    def change(content):
        lines = content.splitlines(keepends=True)
        return b"".join([*lines[:-1], lines[1]])

    with pytest.raises(SweepError, match="of rank 0 twice; hint: "):
        load_sweep(copy(2, change))


@pytest.mark.parametrize(
    "line",
    [
        {"sweep": {}},
        {"sweep": {"files": 3}},
        {"sweep": {"files": [{"file": []}], "settings": [], "unreadable": {}}},
        {"sweep": {"unreadable": [], "settings": [{"configuration": 5, "capacity": 1, "limit": None}]}},
    ],
)
def test_a_description_that_no_sweep_writes_is_refused(copy, line):
    with pytest.raises(SweepError, match="; hint: "):
        load_sweep(copy(1, lambda content: content + checked(line)))


def test_a_row_that_no_sweep_writes_is_refused(swept, copy):
    lines = swept[1].read_bytes().splitlines(keepends=True)
    key = next(json.loads(line)["key"] for line in lines[1:] if b'"key"' in line)
    rows = [line for line in lines if key.encode() not in line]
    changed = copy(1, lambda content: b"".join([*rows, checked({"key": key, "row": {"policy": "lake"}})]))
    with pytest.raises(SweepError, match="its column 'options' has the value 'None'; hint: "):
        load_sweep(changed)


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path):
    with pytest.raises(SweepError, match="cannot be read: No such file or directory; hint: "):
        load_sweep(tmp_path / "nothing.jsonl")
    with pytest.raises(SweepError, match=r"cannot be read: .*; hint: "):
        load_sweep(tmp_path)


def test_parquet_without_pyarrow_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    path = tmp_path / "table.parquet"
    path.write_bytes(b"PAR1 sha256 peak_held PAR1")
    with pytest.raises(ConfigError, match="reading Parquet needs pyarrow; hint: pip install"):
        load_sweep(path)


def test_parquet_that_is_damaged_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "table.parquet"
    path.write_bytes(b"PAR1 sha256 peak_held PAR1")
    with pytest.raises(SweepError, match=r"is damaged: pyarrow cannot read it .*; hint: "):
        load_sweep(path)
