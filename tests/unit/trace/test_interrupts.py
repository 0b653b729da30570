"""An interrupt while a trace is loaded or analysed is not lost inside NumPy."""

import sys

import pytest

import memlake
from helpers.torch_snapshots import scattered_job
from memlake.trace import Op


@pytest.fixture
def lookups():
    """The names of the attributes that NumPy looks up in an enum, which is Python code before Python 3.12."""
    seen = []

    def watch(frame, event, _):
        if event == "call" and frame.f_code.co_name == "__getattr__" and frame.f_code.co_filename.endswith("enum.py"):
            seen.append(frame.f_locals.get("name"))

    sys.setprofile(watch)
    yield seen
    sys.setprofile(None)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="enums have no such Python code from Python 3.12 on")
def test_a_comparison_with_an_enum_is_what_this_test_sees(lookups):
    assert (memlake.Trace([0], [0], [512]).op == Op.ALLOCATE).all()
    assert lookups


@pytest.mark.parametrize("ending", ["pickle", "npz"])
def test_numpy_does_not_look_up_attributes_of_operations(tmp_path, lookups, ending):
    path = scattered_job().save(tmp_path / "snapshot.pickle")
    if ending == "npz":
        path = tmp_path / "trace.npz"
        memlake.Trace.load(tmp_path / "snapshot.pickle").save(path)
    trace = memlake.Trace.load(path)
    assert trace.num_allocations == 26
    memlake.overview(trace)
    memlake.compare(trace, "1GiB", "caching")
    memlake.diff(trace, trace)
    assert [name for name in lookups if name and name.startswith("__array")] == []
