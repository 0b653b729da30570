import gzip

import pytest

from memlake import Trace, TraceError
from memlake.trace import Op

A, F, R, D, S, Y, E, O, T, P, G = Op  # noqa: E741


def test_every_letter_is_an_operation(load):
    trace = load("s 3\na 10 1000 0\na 11 4096 1\nr 11 2\nf 11\nd 11\nf 10 2\ny\ne\n")
    rows = [(row.op, row.id, row.bytes, row.stream) for row in trace]
    assert rows == [
        (S, 3, 0, 0),
        (A, 0, 1000, 0),
        (A, 1, 4096, 1),
        (R, 1, 0, 2),
        (F, 1, 0, 0),
        (D, 1, 0, 0),
        (O, 0, 0, 2),
        (Y, 0, 0, 0),
        (E, 0, 0, 0),
    ]
    assert trace.time is None
    assert trace.tags == ()


def test_comments_blank_lines_and_line_ends_of_other_systems_are_no_rows(load):
    assert load("# a comment\r\n\r\n   \na 0 1 # another\r\nf 0") == load("a 0 1 0\nf 0\n")


def test_the_stream_of_an_allocation_may_be_left_out(load):
    assert load("a 5 7\n") == load("a 0 7 0\n")


def test_comments_alone_are_an_empty_trace(load):
    assert len(load("# nothing happened\n")) == 0


def test_rows_count_against_the_memory_limit_also_in_a_file_that_packs_well(load):
    count = 2**17
    packed = gzip.compress(b"y\n" * count)
    assert len(packed) < 1000
    with pytest.raises(TraceError, match="line 65536: has so many rows that it needs more than the 4 MiB of memory"):
        load(packed, memory_limit="4MiB")
    assert len(load(packed, memory_limit="16MiB")) == count


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x 1", "'x 1' is not a row; hint: a row is one of a ID BYTES"),
        ("allocate 1 2", "is not a row"),
        ("a 1", r"'a 1' must be a ID BYTES \[STREAM\]"),
        ("a 1 2 3 4", "must be a ID BYTES"),
        ("f", r"must be f ID \[STREAM\]"),
        ("r 0", "must be r ID STREAM"),
        ("y 1", "must be y"),
        ("a 1 -5 0", "has '-5', which is no whole number"),
        ("a 1 +5 0", "has '\\+5'"),
        ("a 1 1_000 0", "has '1_000'"),
        ("a 1 nan 0", "has 'nan'"),
        ("a 1 1e9 0", "has '1e9'"),
        ("a 1 ٣ 0", "which is no whole number"),
        ("a 1 " + "9" * 5000 + " 0", "which is no whole number"),
        ("a 1 9223372036854775808 0", "asks for 9223372036854775808 bytes, which is more than any memory"),
        ("a 18446744073709551616 1 0", "no whole number below"),
        ("a 1 1 65536", "names stream 65536; streams are numbered below 65536"),
        ("f 0 65536", "names stream 65536"),
        ("r 0 70000", "names stream 70000"),
        ("f 9", "id 9 is freed, but was not allocated before"),
        ("a 0 1 0", "id 0 is allocated a second time"),
        ("d 0", "the events of id 0 are done before it is freed"),
        ("a " + "1 " * 20000, "is not a row"),
        ("\x00\x01", "is not a row"),
    ],
)
def test_a_wrong_line_is_named_with_its_number(load, line, reason):
    with pytest.raises(TraceError, match=reason) as caught:
        load(b"# begin\na 0 1 0\n" + b"y\n" * 70_000 + line.encode() + b"\n")
    assert caught.value.place == "line 70003"
    assert caught.value.path.endswith("file")
    assert len(str(caught.value)) < 1000


def test_bytes_that_are_no_text_are_shown_escaped(load):
    with pytest.raises(TraceError, match=r"line 2: .*\\\\xff.* is not a row"):
        load(b"y\n\xff\xfe\n")


def test_text_is_written_as_it_is_read(load, tmp_path):
    trace = load("s 1\na 0 1000 0\nr 0 1\nf 0 1\nd 0\na 1 5 2\nf 1\ny\ne\n")
    trace.save(tmp_path / "out.txt")
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert lines[0] == "# memlake trace: 9 rows, peak live 1 KiB"
    assert lines[1:] == ["s 1", "a 0 1000 0", "r 0 1", "f 0 1", "d 0", "a 1 5 2", "f 1", "y", "e"]
    assert Trace.load(tmp_path / "out.txt") == trace


def test_trims_and_preallocations_have_letters(tmp_path):
    path = tmp_path / "trace.txt"
    path.write_text("p 4096 2\np 512\nt 1024\n")
    trace = Trace.load(path)
    assert [tuple(row)[:4] for row in trace] == [(P, 0, 4096, 2), (P, 0, 512, 0), (T, 0, 1024, 0)]
    assert trace.num_streams == 2
    trace.save(path)
    assert Trace.load(path) == trace
