"""Whatever is in a file, loading gives a trace or a `TraceError`: no other exception, no crash, no hang."""

import pickle

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from helpers.valid_trace import assert_valid
from memlake import Trace, TraceError

FORMATS = [
    "text",
    "npz",
    "RMM",
    "snapshot, protocol 4",
    "snapshot, protocol 2",
    "list of segments",
    "gzip",
]
RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check(path, content):
    """Loads a file that may be anything. A trace that comes out of it is a good one."""
    path.write_bytes(content)
    refused = None
    try:
        trace = Trace.load(path, memory_limit="64MiB")
    except TraceError as error:
        refused = error
    if refused is not None:
        assert refused.path == str(path)
        assert len(str(refused)) < 2000
        return None
    assert_valid(trace)
    assert trace.peak_live >= 0
    assert repr(trace)
    return trace


def test_the_small_files_are_all_formats(small_files):
    assert list(small_files) == FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_every_prefix_of_a_file_is_a_trace_or_an_error(small_files, tmp_path, name):
    content = small_files[name]
    assert check(tmp_path / "file", content) is not None
    for length in range(len(content)):
        check(tmp_path / "file", content[:length])


@pytest.mark.parametrize("name", FORMATS)
def test_a_byte_that_is_missing_or_wrong_is_a_trace_or_an_error(small_files, tmp_path, name):
    content = small_files[name]
    for place in range(0, len(content), 5):
        check(tmp_path / "file", content[:place] + content[place + 1 :])
        check(tmp_path / "file", content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
@RELAXED
def test_a_file_with_random_changes_is_a_trace_or_an_error(small_files, tmp_path, name, data):
    content = bytearray(small_files[name])
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 12))
        content[place : place + length] = data.draw(st.binary(max_size=12))
    check(tmp_path / "file", bytes(content))


@given(st.binary(max_size=300))
@example(b"\x80\x04.")
@example(b"PK\5\6")
@RELAXED
def test_random_bytes_are_a_trace_or_an_error(tmp_path, content):
    for start in (
        b"",
        b"\x80\x04",
        b"}q\x00",
        b"PK\3\4",
        b"\x1f\x8b\x08\x00",
        b"a 0 ",
        b"Action,Pointer,Size,Stream\n",
    ):
        check(tmp_path / "file", start + content)


FIELDS = st.sampled_from(
    ["action", "addr", "size", "stream", "time_us", "frames", "device", "address", "total_size", "blocks", "state",
     "requested_size", "history", "real_size", "segment_type", "segment_pool_id", "is_expandable", "device_free"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.integers(0, 4096) | st.floats() | st.text(max_size=3)
    | st.sampled_from(["alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map",
                       "segment_unmap", "oom", "active_allocated", "active_pending_free", "inactive", "small"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner, max_size=8),
    max_leaves=20,
)  # fmt: skip
EVENTS = st.fixed_dictionaries(
    {
        "action": st.sampled_from(
            ["alloc", "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map",
             "segment_unmap", "oom", "snapshot"]
        ),
        "addr": st.integers(0, 8).map(lambda place: place * 512),
        "size": st.integers(0, 4096),
        "stream": st.integers(0, 3),
    },
    optional={"time_us": st.integers(0, 100), "frames": VALUES},
)  # fmt: skip
SEGMENTS = st.fixed_dictionaries(
    {
        "address": st.integers(0, 8).map(lambda place: place * 512),
        "total_size": st.integers(0, 8192),
        "blocks": st.lists(
            st.fixed_dictionaries(
                {"size": st.integers(0, 4096), "state": st.sampled_from(["active_allocated", "inactive"])}
            ),
            max_size=4,
        ),
    },
    optional={"is_expandable": st.booleans(), "stream": st.integers(0, 3), "device": st.integers(0, 1)},
)


@given(st.dictionaries(st.sampled_from(["segments", "device_traces", "allocator_settings"]), VALUES) | st.lists(VALUES))
@RELAXED
def test_a_pickle_of_random_data_is_a_trace_or_an_error(tmp_path, snapshot):
    check(tmp_path / "file", pickle.dumps(snapshot, 4))


@given(st.lists(EVENTS, max_size=30), st.lists(SEGMENTS, max_size=4))
@RELAXED
def test_events_in_any_order_give_a_valid_trace(tmp_path, events, segments):
    """Rings that overflow and actions that are left out make any order possible."""
    trace = check(tmp_path / "file", pickle.dumps({"segments": segments, "device_traces": [events]}, 4))
    assert trace is not None or not (events or segments)
    if trace is not None and trace.metadata["device"] == 0:
        assert len(trace.recorded.addresses) == len(trace)
