import numpy as np
import pytest

from memlake import Trace, TraceError
from memlake.trace import Context, Frame, Label, Stacks

COLUMNS = {
    "starts": [0, 0, 2, 3],
    "frames": [0, 1, 1],
    "filename": [0, 1],
    "line": [10, 20],
    "name": [2, 2],
    "texts": ["a.cpp", "b.py", "f"],
}


def test_a_stack_is_a_tuple_of_frames():
    stacks = Stacks(**COLUMNS)
    inner, outer = Frame("a.cpp", 10, "f"), Frame("b.py", 20, "f")
    assert list(stacks) == [(), (inner, outer), (outer,)]
    assert stacks[-1] == (outer,)
    assert stacks[1:] == ((inner, outer), (outer,))
    assert (len(stacks), stacks.num_frames) == (3, 2)
    assert repr(stacks) == "<memlake.trace.Stacks: 3 stacks, 2 frames>"
    with pytest.raises(IndexError):
        stacks[3]


def test_the_innermost_wanted_frame_of_each_stack():
    stacks = Stacks(**COLUMNS)
    assert stacks.first_frames(np.array([True, True])).tolist() == [-1, 0, 1]
    assert stacks.first_frames(np.array([False, True])).tolist() == [-1, 1, 1]
    assert stacks.first_frames(np.array([True, False])).tolist() == [-1, 0, -1]
    assert Stacks().first_frames(np.zeros(0, np.bool_)).tolist() == [-1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"starts": [0]}, "the first stack must be empty"),
        ({"starts": [0, 1, 3]}, "the first stack must be empty"),
        ({"starts": [0, 0, 2]}, "the last must end with the frames"),
        ({"starts": [0, 0, 4, 3]}, "a stack ends before it begins"),
        ({"starts": [[0, 0]]}, "in one dimension"),
        ({"frames": [0, 1, 2]}, "there is no frame 2"),
        ({"frames": [0, 1, -1]}, "a number is outside"),
        ({"frames": [0.5, 1.0, 1.0]}, "whole numbers"),
        ({"filename": [0, 3]}, "there is no file 3"),
        ({"name": [0, 3]}, "there is no name 3"),
        ({"name": [0]}, "different lengths"),
        ({"line": [1, 2**32]}, "a number is outside"),
        ({"texts": ["a", "b", 5]}, "texts must be strings"),
    ],
)
def test_columns_that_contradict_each_other_are_refused(change, reason):
    with pytest.raises(ValueError, match=reason):
        Stacks(**(COLUMNS | change))


def test_the_context_must_fit_the_trace():
    stacks = Stacks(**COLUMNS)

    def trace(context):
        return Trace([0, 1], [0, 0], [8, 0], context=context)

    assert trace(Context(np.array([1, 0], np.uint32), stacks)).stack_of(0)[0].line == 10
    assert trace(None).stack_of(0) == ()
    label = Label(np.array([0, 2], np.uint32), ("", "x"))
    for context, reason in (
        (Context(np.array([1], np.uint32), stacks), "1 rows of stack, and the trace has 2 rows"),
        (Context(np.array([1, 3], np.uint32), stacks), "has no stack 3"),
        (Context(np.array([1, 0], np.uint32), stacks, {"category": label}), "has no category 2"),
    ):
        with pytest.raises(TraceError, match=reason):
            trace(context)
