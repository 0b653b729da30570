import numpy as np
import pytest

from memlake import Trace, TraceError
from memlake.trace import Op

A, F, R, D, S, Y, E, O, T, P, G = Op  # noqa: E741


@pytest.mark.parametrize(
    ("op", "id", "place", "reason"),
    [
        ([F], [0], "row 0", "id 0 is freed, but was not allocated before"),
        ([A, F], [0, 1], "row 1", "id 1 is freed, but was not allocated before"),
        ([A, O], [7, 8], "row 1", "id 8 is freed, but was not allocated before"),
        ([F, A], [0, 0], "row 0", "id 0 is freed, but was not allocated before"),
        ([A, F, A, F], [9, 5, 5, 9], "row 1", "id 5 is freed, but was not allocated before"),
        ([A, F, F], [0, 0, 0], "row 2", "id 0 is freed a second time"),
        ([A, O, F], [3, 3, 3], "row 2", "id 3 is freed a second time"),
        ([A, F, A], [0, 0, 0], "row 2", "id 0 is allocated a second time"),
        ([A, A, A, A], [1, 2, 2, 1], "row 2", "id 2 is allocated a second time"),
        ([A, R], [0, 4], "row 1", "id 4 is recorded on a stream, but was not allocated before"),
        ([A, F, R], [0, 0, 0], "row 2", "id 0 is recorded on a stream after it was freed"),
        ([A, D, F], [0, 0, 0], "row 1", "the events of id 0 are done before it is freed"),
        ([D], [2], "row 0", "id 2 is reported done, but was not allocated before"),
        ([S], [2**32], "row 0", "step 4294967296 is not below"),
        ([A, 11], [0, 0], "row 1", "op 11 is not between 0 and 10"),
        ([A, -1], [0, 0], "row 1", "op -1 is not between 0 and 10"),
        ([A, A], [0, -5], "row 1", "id -5 is not between"),
    ],
)
def test_a_row_that_breaks_a_rule_is_named(op, id, place, reason):
    with pytest.raises(TraceError, match=reason) as caught:
        Trace(op, id, np.zeros(len(op), np.uint64))
    assert caught.value.place == place
    assert str(caught.value).startswith(place)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"bytes": [1, 2**63]}, r"row 1: bytes 9223372036854775808 is not between 0 and 9223372036854775807"),
        ({"bytes": [1, -1]}, "row 1: bytes -1 is not between"),
        ({"bytes": [1.0, float("nan")]}, "column bytes must have whole numbers, not float64"),
        ({"bytes": [None, 1]}, "column bytes must have whole numbers, not object"),
        ({"bytes": [[1, 2]]}, "column bytes must have one dimension, not 2"),
        ({"bytes": [1]}, "row 1: column bytes has 1 rows and column op has 2"),
        ({"bytes": [1, 2, 3]}, "row 2: column bytes has 3 rows and column op has 2"),
        ({"stream": [0, 65536]}, "row 1: stream 65536 is not between 0 and 65535"),
        ({"tag": [0, 1]}, "row 1: tag 1 is not between 0 and 0"),
        ({"tag": [0, 2], "tags": ["a", "b"]}, "row 1: tag 2 is not between 0 and 1"),
        ({"time": [0]}, "column time has 1 rows"),
        ({"time": [0, 2**63]}, "time 9223372036854775808 is not between"),
        ({"op": [True, False]}, "column op must have whole numbers, not bool"),
    ],
)
def test_a_value_out_of_range_is_named(columns, reason):
    with pytest.raises(TraceError, match=reason):
        Trace(**({"op": [A, A], "id": [0, 1], "bytes": [1, 1]} | columns))


def test_the_largest_values_are_accepted():
    trace = Trace([A, S], [2**64 - 1, 2**32 - 1], [2**63 - 1, 0], [65535, 0], time=[-(2**63), 2**63 - 1])
    assert trace[0][:5] == (A, 0, 2**63 - 1, 65535, -(2**63))
    assert trace[1].id == 2**32 - 1


def test_of_several_wrong_rows_the_first_of_its_kind_is_named():
    with pytest.raises(TraceError, match="row 1: id 1 is freed, but"):
        Trace([A, F, F], [0, 1, 2], [1, 0, 0])
