import copy
import pickle

import numpy as np
import pytest

from helpers.valid_trace import assert_valid
from memlake import ConfigError, Trace, TraceError
from memlake.trace import Op, Row, Step

A, F, R, D, S, Y, E, O, T, P, G = Op  # noqa: E741  the letters of the text form; O is a free on another stream


@pytest.fixture
def trace():
    """Two steps after a row of set-up; allocation 0 lives through all of them."""
    return Trace(
        op=[A, S, A, R, F, D, S, A, O, Y, E],
        id=[0, 1, 1, 1, 1, 1, 2, 2, 0, 0, 0],
        bytes=[100, 0, 1000, 0, 0, 0, 0, 513, 0, 0, 0],
        stream=[0, 0, 1, 2, 0, 0, 0, 0, 3, 0, 0],
        time=range(100, 111),
        tag=[0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0],
        tags=["", "mm"],
        metadata={"model": "gpt", "lengths": [1, 2]},
    )


def test_the_columns_have_fixed_types_and_cannot_be_written(trace):
    types = {"op": "u1", "id": "u4", "bytes": "u8", "stream": "u2", "tag": "u4", "time": "i8"}
    for name, dtype in types.items():
        column = getattr(trace, name)
        assert column.dtype == np.dtype(dtype)
        assert len(column) == len(trace) == 11
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1
        with pytest.raises(AttributeError):
            setattr(trace, name, column)


@pytest.mark.parametrize("name", ["tags", "recorded", "metadata"])
def test_what_a_trace_is_cannot_be_changed(trace, name):
    with pytest.raises(AttributeError):
        setattr(trace, name, None)


def test_a_trace_copies_what_it_is_made_of():
    sizes = np.array([1, 2], np.uint64)
    trace = Trace([A, A], [0, 1], sizes)
    sizes[0] = 99
    assert trace.bytes.tolist() == [1, 2]


def test_a_trace_counts(trace):
    assert trace.num_allocations == 3
    assert trace.num_streams == 4
    assert trace.steps == (Step(1, 1, 6), Step(2, 6, 11))


def test_peak_live_rounds_each_request_up_to_512(trace):
    # 100 -> 512 and 1000 -> 1024; then 512 and 513 -> 1024. The first row that reaches it counts.
    assert trace.peak_live == 1536
    assert trace.peak_row == 2


def test_a_request_for_nothing_gets_nothing():
    trace = Trace([A, A], [0, 1], [0, 1])
    assert trace.peak_live == 512


def test_peak_live_of_absurd_sizes_does_not_wrap_around():
    largest = 2**63 - 1
    trace = Trace([A] * 5 + [F], [0, 1, 2, 3, 4, 4], [largest] * 5 + [0])
    assert trace.peak_live == 5 * 2**63


def test_an_empty_trace_is_a_trace():
    trace = Trace([], [], [])
    assert len(trace) == trace.peak_live == trace.num_streams == 0
    assert trace.peak_row is None
    assert trace.steps == ()
    assert trace == trace[0:0]


def test_a_row_says_what_it_is(trace):
    assert trace[2] == Row(Op.ALLOCATE, 1, 1000, 1, 102, "mm")
    assert trace[-1] == Row(Op.EMPTY_CACHE, 0, 0, 0, 110, "")
    with pytest.raises(IndexError):
        trace[11]


def test_ids_are_numbered_by_allocation():
    trace = Trace([A, A, F, A, F], [2**64 - 1, 5, 2**64 - 1, 0, 5], [1, 2, 0, 3, 0])
    assert trace.id.tolist() == [0, 1, 0, 2, 1]


def test_cells_that_mean_nothing_are_zero():
    one = Trace([A, F, S, Y], [0, 0, 7, 9], [1, 8, 8, 8], [3, 3, 3, 3])
    assert one == Trace([A, F, S, Y], [0, 0, 7, 0], [1, 0, 0, 0], [3, 0, 0, 0])


def test_a_part_begins_with_what_is_live(trace):
    part = trace[6:]
    assert [row[:4] for row in part] == [(A, 0, 100, 0), (S, 2, 0, 0), (A, 1, 513, 0), (O, 0, 0, 3), (Y, 0, 0, 0), (E, 0, 0, 0)]  # fmt: skip  # noqa: E501
    assert part.time.tolist() == [106, 106, 107, 108, 109, 110]
    assert part.metadata == trace.metadata
    assert_valid(part)


def test_a_part_keeps_the_streams_that_live_allocations_were_recorded_on(trace):
    assert [row[:4] for row in trace[4:5]] == [(A, 0, 100, 0), (A, 1, 1000, 1), (R, 1, 0, 2), (F, 1, 0, 0)]


def test_a_part_leaves_out_events_of_what_was_freed_before_it(trace):
    assert [row.op for row in trace[5:7]] == [A, S]


def test_steps_are_parts(trace):
    assert trace.in_steps(2, 2) == trace[6:11]
    assert trace.in_steps(1, 99) == trace[1:]


@pytest.mark.parametrize("numbers", [(3, 9), (2, 1), (0, 0)])
def test_steps_that_are_not_there_are_refused(trace, numbers):
    with pytest.raises(ConfigError, match="there are: 1 to 2"):
        trace.in_steps(*numbers)


def test_a_trace_is_cut_in_one_piece(trace):
    with pytest.raises(ConfigError, match="without a stride"):
        trace[::2]


def test_all_rows_are_the_trace_itself(trace):
    assert trace[:] == trace


@pytest.mark.parametrize(
    "change",
    [
        {"op": [S]},
        {"bytes": [101]},
        {"stream": [1]},
        {"time": [5]},
        {"time": None},
        {"tags": ["y"]},
        {"metadata": {"a": 2}},
    ],
)
def test_traces_are_equal_by_content(change):
    same = {"op": [A], "id": [0], "bytes": [100], "stream": [0], "time": [4], "tags": ["x"], "metadata": {"a": 1}}
    assert Trace(**same) == Trace(**same)
    assert Trace(**same) != Trace(**(same | change))
    assert Trace(**same) != "a trace"


def test_a_trace_is_too_large_to_be_a_key(trace):
    with pytest.raises(TypeError):
        hash(trace)


def test_the_repr_says_what_it_is(trace):
    assert repr(trace) == "<memlake.Trace: 11 rows, 3 allocations, 4 streams, 2 steps, peak live 1.5 KiB>"


def test_metadata_is_a_copy(trace):
    trace.metadata["lengths"].append(3)
    assert trace.metadata == {"model": "gpt", "lengths": [1, 2]}


@pytest.mark.parametrize("metadata", [{"a": object()}, {"a": float("nan")}, {("a", "b"): 1}])
def test_metadata_is_what_json_can_hold(metadata):
    with pytest.raises(TraceError, match="metadata must be what JSON can hold"):
        Trace([], [], [], metadata=metadata)


def test_tags_are_strings():
    with pytest.raises(TraceError, match="tags must be strings"):
        Trace([], [], [], tags=[1])


def test_traces_can_be_copied_and_pickled(trace):
    assert copy.deepcopy(trace) == trace
    assert pickle.loads(pickle.dumps(trace)) == trace
