import pytest

from memlake import TraceError
from memlake.trace import Op

HEADER = "Thread,Time,Action,Pointer,Size,Stream\n"


def rows(trace):
    return [(row.op, row.id, row.bytes, row.stream) for row in trace]


def test_a_log_of_todays_rmm(load):
    trace = load(
        HEADER
        + "2342727,15:47:02.841961,allocate,0x10012400000,1048576,0\n"
        + "2342727,15:47:02.841970,allocate,0x10012500000,7,0x55d0c8a1b2c0\n"
        + "2342727,15:47:02.841977,free,0x10012400000,1048576,0\n"
    )
    assert rows(trace) == [(Op.ALLOCATE, 0, 1048576, 0), (Op.ALLOCATE, 1, 7, 1), (Op.FREE, 0, 0, 0)]
    assert (trace.time - trace.time[0]).tolist() == [0, 9, 16]
    assert trace.metadata["streams"] == [0, 0x55D0C8A1B2C0]
    assert trace.recorded.addresses.tolist() == [0x10012400000, 0x10012500000, 0]


def test_pointers_of_any_version_of_rmm(load):
    plain = load(HEADER + "1,00:00:00.000000,allocate,0x7f00,8,0x0\n1,00:00:00.000000,free,0x7f00,8,0x0\n")
    bare = load(HEADER + "1,00:00:00:000000,allocate,7f00,8,0\n1,00:00:00:000000,free,7f00,8,0\n")
    old = load(HEADER[7:] + "00:00:00.000000,allocate,0x7F00,8,0x1\n00:00:00.000000,free,0x7F00,8,0x0\n")
    assert plain == bare == old


def test_a_log_without_a_first_line_is_that_of_spark(load):
    trace = load(
        "1979932,14:21:19.998533,allocate,0x30a000000,256,0x2\n1980043,14:21:32.661875,free,0x30a000000,256,0x2"
    )
    assert rows(trace) == [(Op.ALLOCATE, 0, 256, 1), (Op.FREE, 0, 0, 0)]


def test_columns_are_found_by_name(load):
    trace = load("Action,Size,Extra,Pointer,Stream\nallocate,5,x,0x100,0x0\ndeallocate,5,x,0x100,0x0\n")
    assert rows(trace) == [(Op.ALLOCATE, 0, 5, 0), (Op.FREE, 0, 0, 0)]
    assert trace.time is None


def test_times_go_on_after_midnight(load):
    trace = load(HEADER + "1,23:59:59.999999,allocate,0x1,1,0\n1,00:00:00.000001,free,0x1,1,0\n")
    assert trace.time[1] - trace.time[0] == 2


def test_a_free_on_another_stream_says_so(load):
    trace = load(
        HEADER + "1,00:00:00.0,allocate,0x1,1,0x0\n".replace(".0,", ".000000,") + "1,00:00:00.000000,free,0x1,1,0x7\n"
    )
    assert rows(trace)[1] == (Op.FREE_ON, 0, 0, 1)


def test_a_pointer_is_used_again_after_its_free(load):
    line = "1,00:00:00.000000,{},0x100,{},0\n"
    trace = load(HEADER + line.format("allocate", 1) + line.format("free", 1) + line.format("allocate", 2))
    assert rows(trace) == [(Op.ALLOCATE, 0, 1, 0), (Op.FREE, 0, 0, 0), (Op.ALLOCATE, 1, 2, 0)]


def test_failures_are_recorded_and_null_pointers_left_out(load):
    trace = load(
        HEADER
        + "1,00:00:00.000001,allocate,(nil),0,0\n1,00:00:00.000002,free,0x0,0,0\n"
        + "1,00:00:00.000003,allocate,0x100,1,0\n1,00:00:00.000004,allocate failure,(nil),99999,0\n"
    )
    assert rows(trace) == [(Op.ALLOCATE, 0, 1, 0)]
    (failure,) = trace.recorded.events
    assert (failure.kind, failure.row, failure.nbytes, failure.time) == ("oom", 1, 99999, 4)
    assert trace.metadata["num_failures"] == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1,00:00:00.000000,allocate,0x200,1", "has 5 cells and not 6"),
        ("1,00:00:00.000000,allocate,0x200,1,0,0", "has 7 cells and not 6"),
        ("1,00:00:00.000000,alloc,0x200,1,0", "has the action 'alloc'; known: allocate, free"),
        ("1,00:00:00.000000,allocate,zzz,1,0", "has the pointer 'zzz', which is no hexadecimal"),
        ("1,00:00:00.000000,allocate,0x11112222333344445,1,0", "no hexadecimal number of 64 bits"),
        ("1,00:00:00.000000,allocate,-0x1,1,0", "no hexadecimal"),
        ("1,00:00:00.000000,allocate,0x200,-1,0", "has the size '-1'"),
        ("1,00:00:00.000000,allocate,0x200,nan,0", "has the size 'nan'"),
        ("1,00:00:00.000000,allocate,0x200,9223372036854775808,0", "has the size '9223372036854775808'"),
        ("1,00:00:00.000000,allocate,0x200,1,default", "has the stream 'default'"),
        ("1,yesterday,allocate,0x200,1,0", "has the time 'yesterday', which is not like"),
        ("1,00:00:00.000000,free,0x200,1,0", "frees 0x200, which is not allocated"),
        ("1,00:00:00.000000,allocate,0x100,1,0", "allocates 0x100, which line 2 allocated"),
        ("1" * 20000, "has more than 10000 bytes, which no row has"),
    ],
)
def test_a_wrong_line_is_named_with_its_number(load, line, reason):
    with pytest.raises(TraceError, match=reason) as caught:
        load(HEADER + "1,00:00:00.000000,allocate,0x100,1,0\n" + line + "\n")
    assert caught.value.place == "line 3"


def test_a_first_line_that_is_too_long_is_named(load):
    with pytest.raises(TraceError, match=r"line 1: .* has more than 10000 bytes"):
        load("1,14:21:19.998533,allocate,0x7f00,512,0x0" + " " * 10000 + "\n")


def test_rows_count_against_the_memory_limit(load):
    count = 2**16
    rows = "".join(f"1,00:00:00.000000,allocate,{512 * n + 512:x},1,0\n" for n in range(count))
    with pytest.raises(TraceError, match=f"line {count}: has so many rows that it needs more than the 16 MiB"):
        load(HEADER + rows, memory_limit="16MiB")
    assert len(load(HEADER + rows, memory_limit="64MiB")) == count
    failures = "1,00:00:00.000000,allocate failure,0,1,0\n" * count
    with pytest.raises(TraceError, match="raise memory_limit if you trust it"):
        load(HEADER + failures, memory_limit="24MiB")


def test_more_streams_than_a_trace_can_number_are_refused(load):
    lines = (f"1,00:00:00.000000,allocate,{n + 1:#x},1,{n + 16:#x}\n" for n in range(65536))
    with pytest.raises(TraceError, match="line 65537: stream 65536 is not between"):
        load(HEADER + "".join(lines))
