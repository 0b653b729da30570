"""Results files: what was written is there again, a torn last line is dropped, and any other damage is refused."""

import json
import os
import stat

import pytest

from helpers.processes import run_python
from memlake.errors import SweepError
from memlake.sweeping.results_file import ResultsFile

ROWS = {f"key{number}": {"policy": "lake", "peak_held": number, "text": "ä\r\n"} for number in range(3)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.jsonl"


@pytest.fixture
def written(path):
    with ResultsFile(path) as file:
        file.add(ROWS)
    return path


def rows_of(path):
    with ResultsFile(path) as file:
        return dict(file.rows)


def test_rows_are_there_when_the_file_is_opened_again(written):
    with ResultsFile(written) as file:
        assert file.rows == ROWS
        assert not file.has_dropped


def test_a_key_is_written_once(written):
    before = written.read_bytes()
    with ResultsFile(written) as file:
        file.add({"key1": {"policy": "another"}})
        assert file.rows == ROWS
    assert written.read_bytes() == before


def test_every_line_is_json(written):
    header, *lines = [json.loads(line) for line in written.read_text().splitlines()]
    assert header == {"format": "memlake sweep results", "version": 2}
    assert {line["key"]: line["row"] for line in lines} == ROWS


def test_a_last_line_that_is_cut_anywhere_is_dropped_and_the_file_goes_on(written):
    whole = written.read_bytes()
    start = whole.rindex(b'{"check"')
    for length in range(start + 1, len(whole)):
        written.write_bytes(whole[:length])
        with ResultsFile(written) as file:
            assert file.has_dropped
            assert list(file.rows) == ["key0", "key1"]
            file.add({"key2": ROWS["key2"]})
        assert written.read_bytes() == whole


def test_zeros_in_place_of_the_last_line_are_dropped(written):
    whole = written.read_bytes()
    start = whole.rindex(b'{"check"')
    written.write_bytes(whole[:start] + bytes(len(whole) - start))
    assert list(rows_of(written)) == ["key0", "key1"]
    assert written.read_bytes() == whole[:start]


def test_a_header_that_was_not_written_to_its_end_is_a_new_file(path):
    path.touch()
    with ResultsFile(path):
        pass
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert rows_of(path) == {}
        assert path.read_bytes() == whole


def test_a_changed_byte_before_the_last_line_is_refused_and_nothing_is_written(written):
    whole = written.read_bytes()
    start, end = whole.index(b'{"check"'), whole.rindex(b'{"check"')
    for place in range(start, end):
        if whole[place] == ord("\n"):
            continue  # two lines become one, which may be the last one and is then dropped
        damaged = bytearray(whole)
        damaged[place] ^= 1
        written.write_bytes(damaged)
        with pytest.raises(SweepError, match=r"is damaged: line \d of \d is not what a sweep wrote; hint: "):
            ResultsFile(written)
        assert written.read_bytes() == bytes(damaged)


def test_a_file_of_another_program_is_refused_and_left_as_it_is(path):
    path.write_text("rank,policy\n0,lake\n")
    with pytest.raises(SweepError, match=r"is no results file of a sweep; hint: name a file that memlake sweep wrote"):
        ResultsFile(path)
    assert path.read_text() == "rank,policy\n0,lake\n"


def test_two_sweeps_cannot_use_one_file_at_the_same_time(written):
    with ResultsFile(written), pytest.raises(SweepError, match="is in use by another sweep; hint: wait"):
        ResultsFile(written)
    assert rows_of(written) == ROWS


def test_a_place_where_no_file_can_be_is_refused(tmp_path):
    for path, why in [(tmp_path, "Is a directory"), (tmp_path / "no" / "file", "No such file"), ("a\0b", "null byte")]:
        with pytest.raises(SweepError, match=f"cannot be opened: .*{why}.*; hint: "):
            ResultsFile(path)


def test_a_fifo_is_refused_without_waiting_for_its_other_end(path):
    os.mkfifo(path)
    with pytest.raises(SweepError, match="it is no regular file; hint: "):
        ResultsFile(path)
    assert stat.S_ISFIFO(path.stat().st_mode)


LIMITED = """
    import resource, sys
    from memlake.errors import SweepError
    from memlake.sweeping.results_file import ResultsFile
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
    try:
        with ResultsFile(sys.argv[1]) as file:
            file.add({"new": {"text": "x" * 5000}})
    except SweepError as error:
        print(error)
"""


def test_a_full_disk_leaves_the_file_as_it_was(written):
    before = written.read_bytes()
    done = run_python(LIMITED, str(written), str(len(before) + 100))
    assert "cannot be written: File too large; hint: make room" in done.stdout
    assert done.stderr == ""
    assert written.read_bytes() == before


def test_a_full_disk_leaves_no_new_file(path):
    done = run_python(LIMITED, str(path), "10")
    assert "cannot be written: File too large; hint: make room" in done.stdout
    assert not path.exists()


def test_a_new_file_without_a_result_is_removed_and_an_older_one_stays(tmp_path):
    path = tmp_path / "results.jsonl"
    with ResultsFile(path) as results:
        results.describe({"files": []})
    assert not path.exists()
    path.touch()
    with ResultsFile(path) as results:
        results.describe({"files": []})
    assert path.exists()
