import pickle

import pytest

from memlake import TraceError


def test_the_content_tells_the_format_and_not_the_name(small_files, load):
    for content in small_files.values():
        traces = [load(content, name) for name in ("a.npz", "a.txt", "a.csv", "a.pickle", "a.gz", "a")]
        assert all(trace == traces[0] for trace in traces)
        assert len(traces[0]) > 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x93NUMPY\x01\x00", "is a single NumPy array"),
        (b'{"traceEvents": []}', "is JSON or HTML, perhaps a profiler's output"),
        (b"  [1, 2]", "is JSON or HTML"),
        (b"<!DOCTYPE html>", "is JSON or HTML"),
        (b"SQLite format 3\0", "is a database"),
        (b"\x7fELF\x02\x01\x01", "byte 0: is no file that memlake knows; hint: memlake reads its own"),
        (bytes(1000), "byte 0: is no file that memlake knows"),
        (b"\x89PNG\r\n\x1a\n", "is no file that memlake knows"),
        (b"a 0 1 0\n\x01", "byte 8: is no file that memlake knows"),
        (b"Thread,Time,Action\n1,2,3\n", "line 1: 'Thread,Time,Action' is not a row"),
        (b"PK\5\6" + bytes(18), "has no column op, id, bytes, stream"),
        (b"PK\3\4" + bytes(30), "is not a whole zip file: it has no directory"),
        (pickle.dumps({"a": 1}, 0), "it is a pickle of protocol 0"),
        (pickle.dumps([1], 0), "it is a pickle of protocol 0"),
        (pickle.dumps({"segments": []}, 1), "has no segments and no events"),
        (pickle.dumps([], 1), "has no segments and no events"),
    ],
)
def test_what_is_no_trace_is_refused_with_what_it_is(load, content, reason):
    with pytest.raises(TraceError, match=reason):
        load(content)


def test_a_byte_order_mark_does_not_hide_a_log(load):
    trace = load("\ufeffThread,Time,Action,Pointer,Size,Stream\n1,00:00:00.000000,allocate,0x1,1,0\n")
    assert len(trace) == 1
