"""Any valid trace survives saving and loading, in every format, as far as the format goes."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.valid_trace import assert_valid
from memlake import Trace
from memlake.trace import Op

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
SIZES = st.one_of(st.integers(0, 2**20), st.integers(0, 2**63 - 1))
STREAMS = st.one_of(st.integers(0, 3), st.integers(0, 65535))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def traces(draw):
    """A valid trace, row by row: what is live may be freed or recorded, what is freed may be done."""
    rows = []
    live, freed = [], []
    ids = draw(st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=20))
    for _ in range(draw(st.integers(0, 60))):
        op = draw(st.sampled_from(Op))
        if op is Op.ALLOCATE and ids:
            live.append(ids.pop())
            rows.append((op, live[-1], draw(SIZES), draw(STREAMS)))
        elif op in (Op.FREE, Op.FREE_ON) and live:
            freed.append(live.pop(draw(st.integers(0, len(live) - 1))))
            rows.append((op, freed[-1], 0, draw(STREAMS) if op is Op.FREE_ON else 0))
        elif op is Op.RECORD_STREAM and live:
            rows.append((op, draw(st.sampled_from(live)), 0, draw(STREAMS)))
        elif op is Op.EVENT_DONE and freed:
            rows.append((op, draw(st.sampled_from(freed)), 0, 0))
        elif op is Op.STEP:
            rows.append((op, draw(st.integers(0, 2**32 - 1)), 0, 0))
        elif op in (Op.SYNCHRONIZE, Op.EMPTY_CACHE):
            rows.append((op, 0, 0, 0))
        elif op in (Op.TRIM, Op.PREALLOCATE, Op.RELEASE_POOL):
            rows.append((op, 0, draw(SIZES), draw(STREAMS) if op is Op.PREALLOCATE else 0))
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    tags = draw(st.lists(st.text(), max_size=3))
    indices = st.integers(0, max(len(tags) - 1, 0))
    times = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=len(rows), max_size=len(rows))
    return Trace(
        *columns,
        time=draw(st.none() | times),
        tag=draw(st.lists(indices, min_size=len(rows), max_size=len(rows))),
        tags=tags,
        metadata=draw(st.dictionaries(st.text(), JSON, max_size=3)),
    )


@given(traces())
@settings(max_examples=40, deadline=None)
def test_npz_keeps_everything(tmp_path_factory, trace):
    path = tmp_path_factory.getbasetemp() / "round_trip.npz"
    trace.save(path)
    again = Trace.load(path)
    assert again == trace
    assert json.dumps(again.metadata) == json.dumps(trace.metadata)
    assert again.peak_live == trace.peak_live
    content = path.read_bytes()
    again.save(path)
    assert path.read_bytes() == content


@given(traces())
@settings(max_examples=30, deadline=None)
def test_text_keeps_the_operations(tmp_path_factory, trace):
    for ending in (".txt", ".txt.gz"):
        path = tmp_path_factory.getbasetemp() / f"round_trip{ending}"
        trace.save(path)
        assert Trace.load(path) == Trace(trace.op, trace.id, trace.bytes, trace.stream)


@given(traces())
@settings(max_examples=40, deadline=None)
def test_csv_keeps_the_rows_with_their_times_and_tags(tmp_path_factory, trace):
    path = tmp_path_factory.getbasetemp() / "round_trip.csv"
    trace.save(path)
    again = Trace.load(path)
    for row, other in zip(trace, again, strict=True):
        assert other._replace(tag="") == row._replace(tag="")
        assert other.tag == CONTROL.sub("\ufffd", row.tag)


@given(traces())
@settings(max_examples=20, deadline=None)
def test_parquet_keeps_the_rows_and_the_metadata(tmp_path_factory, trace):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra 'parquet')")
    path = tmp_path_factory.getbasetemp() / "round_trip.parquet"
    trace.save(path)
    again = Trace.load(path)
    assert list(again) == list(trace)
    assert again.metadata == trace.metadata


@given(traces())
@settings(max_examples=30, deadline=None)
def test_rmm_keeps_allocations_and_frees(tmp_path_factory, trace):
    path = tmp_path_factory.getbasetemp() / "round_trip.rmm.csv"
    kept = [row for row in trace if row.op in (Op.ALLOCATE, Op.FREE, Op.FREE_ON) and row.bytes < 2**40]
    ids = {row.id for row in kept if row.op is Op.ALLOCATE}
    kept = [row for row in kept if row.id in ids]
    small = Trace(*([list(column) for column in zip(*kept, strict=True)] or [[]] * 4)[:4])
    small.save(path)
    if not len(small):
        return
    used = sorted({0, *(row.stream for row in small if row.op is not Op.FREE)})
    for row, other in zip(small, Trace.load(path), strict=True):
        assert (other.id, other.bytes) == (row.id, row.bytes)
        is_own = row.op is Op.FREE_ON and row.stream == small[int((small.op == 0).nonzero()[0][row.id])].stream
        assert other.op is (Op.FREE if is_own else row.op)
        assert row.op is Op.FREE or is_own or used[other.stream] == row.stream


@given(traces(), st.data())
@settings(max_examples=40, deadline=None)
def test_every_part_is_a_valid_trace_with_the_same_live_bytes(trace, data):
    start = data.draw(st.integers(0, len(trace)))
    stop = data.draw(st.integers(start, len(trace)))
    part = trace[start:stop]
    assert_valid(part)
    # What is live at the end is the same, whether the rows before the part are there or not.
    assert live_at_the_end(part) == live_at_the_end(trace[:stop])


def live_at_the_end(trace):
    live = {}
    for row in trace:
        if row.op is Op.ALLOCATE:
            live[row.id] = row.bytes
        elif row.op in (Op.FREE, Op.FREE_ON):
            del live[row.id]
    return sorted(live.values())


@given(traces())
@settings(max_examples=40, deadline=None)
def test_peak_live_is_what_counting_row_by_row_gives(trace):
    sizes, live, peak = {}, 0, 0
    for row in trace:
        if row.op is Op.ALLOCATE:
            sizes[row.id] = -(-row.bytes // 512) * 512
            live += sizes[row.id]
        elif row.op in (Op.FREE, Op.FREE_ON):
            live -= sizes[row.id]
        peak = max(peak, live)
    assert trace.peak_live == peak
