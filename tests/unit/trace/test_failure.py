import pickle

import pytest

from memlake import TraceError
from memlake.trace import TraceFileError
from memlake.wording import quoted


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("is empty",), "is empty"),
        (("is empty", "a.npz"), "a.npz: is empty"),
        (("is wrong", "a.txt", "line 3"), "a.txt: line 3: is wrong"),
        (("is wrong", None, "row 3", "do better"), "row 3: is wrong; hint: do better"),
    ],
)
def test_an_error_reads_from_the_file_to_the_hint(parts, text):
    assert str(TraceFileError(*parts)) == text


def test_an_error_is_a_trace_error_and_can_be_pickled():
    error = TraceFileError("reason", "path", "row 5", "hint", 5)
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, TraceError)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)


@pytest.mark.parametrize("value", ["x" * 10**6, b"y" * 10**6, 10**300, "\x00\n" * 100])
def test_values_from_files_are_shown_short_and_on_one_line(value):
    assert len(quoted(value)) <= 60
    assert "\n" not in quoted(value)
