"""Traces as files of other programs: what they keep survives a round trip, and what they cannot hold is named."""

import gzip
import json
import pickle
from itertools import pairwise

import numpy as np
import pytest

from helpers.torch_snapshots import TorchJob, late_job, roomy_job, scattered_job, state_job
from memlake import ConfigError, Trace, TraceError
from memlake.analysis import overview
from memlake.integrations.perfetto import lost_in_perfetto, save_perfetto
from memlake.trace import Op
from memlake.trace.saving import lost_in

ROWS = ("op", "id", "bytes", "stream")


def same_rows(one, other, names=ROWS):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def plain_rows(trace, *ops):
    """The rows of these operations as tuples."""
    kept = [row for row in trace if row.op in ops]
    return [(row.op, row.id, row.bytes, row.stream) for row in kept]


@pytest.mark.parametrize("job", [scattered_job, roomy_job, late_job, state_job])
@pytest.mark.parametrize("torch", [(2, 2), (2, 6), (2, 13)])
def test_a_snapshot_is_written_as_it_was_read(job, torch, tmp_path):
    made = job()
    made.torch = torch
    trace = Trace.load(made.save(tmp_path / "a.pickle"))
    trace.save(tmp_path / "b.pickle")
    again = Trace.load(tmp_path / "b.pickle")
    assert again == trace
    assert overview(again).to_json() == overview(trace).to_json()
    assert [again.stack_of(row) for row in range(len(again))] == [trace.stack_of(row) for row in range(len(trace))]
    assert again.recorded.final == trace.recorded.final
    assert lost_in(trace, "b.pickle") == []


def test_a_forged_number_of_a_device_makes_no_large_file(tmp_path):
    trace = Trace([Op.ALLOCATE], [0], [100], metadata={"device": 10**12, "streams": ["x"], "others": {"segments": 1}})
    trace.save(tmp_path / "a.pickle")
    assert (tmp_path / "a.pickle").stat().st_size < 10_000
    assert Trace.load(tmp_path / "a.pickle").bytes.tolist() == [100]


def test_a_snapshot_goes_through_memlakes_own_file(tmp_path):
    trace = Trace.load(scattered_job().save(tmp_path / "a.pickle"))
    trace.save(tmp_path / "b.npz")
    Trace.load(tmp_path / "b.npz").save(tmp_path / "c.pickle")
    assert Trace.load(tmp_path / "c.pickle") == trace


def test_private_pools_survive(tmp_path):
    job = TorchJob()
    job.free(job.alloc(40, (0, 7)))
    trace = Trace.load(job.save(tmp_path / "a.pickle"))
    trace.save(tmp_path / "b.pickle")
    assert Trace.load(tmp_path / "b.pickle").metadata["private_pools"] == {"0,7": 40 * 2**20}


def test_a_trace_without_addresses_gets_those_of_pytorchs_allocator(moe, tmp_path):
    moe.save(tmp_path / "moe.pickle")
    again = Trace.load(tmp_path / "moe.pickle")
    assert plain_rows(again, Op.ALLOCATE, Op.FREE) == plain_rows(moe, Op.ALLOCATE, Op.FREE)
    assert overview(again).reproduction.is_exact
    assert again.history.kind == "complete"
    lost = lost_in(moe, "moe.pickle")
    assert "leaves out steps" in lost
    assert any("addresses of a replay" in text for text in lost)


def test_memory_that_waited_for_a_stream_waits_in_the_snapshot(make_trace, tmp_path):
    rows = [
        (Op.ALLOCATE, 0, 20),
        (Op.RECORD_STREAM, 0, 0, 3),
        (Op.FREE, 0, 0),
        (Op.ALLOCATE, 1, 20),
        (Op.EVENT_DONE, 0, 0),
    ]
    trace = make_trace(rows)
    trace.save(tmp_path / "a.pickle")
    events = [event["action"] for event in pickle.loads((tmp_path / "a.pickle").read_bytes())["device_traces"][0]]
    assert [event for event in events if not event.startswith("segment")] == [
        "alloc",
        "free_requested",
        "alloc",
        "free_completed",
    ]
    assert "leaves out which streams used a block" in lost_in(trace, "a.pickle")


@pytest.mark.parametrize("ending", [".pickle", ".rmm.csv"])
def test_the_second_stream_is_not_the_default_one(make_trace, tmp_path, ending):
    trace = make_trace([(Op.ALLOCATE, number, 20, number) for number in range(4)])
    trace.save(tmp_path / f"a{ending}")
    assert Trace.load(tmp_path / f"a{ending}").stream.tolist() == [0, 1, 2, 3]


def test_rmm_logs_come_back(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text(
        "Thread,Time,Action,Pointer,Size,Stream\n1,1700000000.000001,allocate,0x500,100,0x0\n"
        "1,1700000000.000002,allocate,0x900,200,0x7\n1,1700000000.000003,free,0x500,100,0x7\n"
    )
    trace = Trace.load(log)
    trace.save(tmp_path / "again.rmm.csv")
    assert Trace.load(tmp_path / "again.rmm.csv") == trace
    assert lost_in(trace, "again.rmm.csv") == []


def test_an_rmm_log_of_an_example_has_its_allocations_and_frees(moe, tmp_path):
    moe.save(tmp_path / "moe.rmm.csv")
    again = Trace.load(tmp_path / "moe.rmm.csv")
    assert plain_rows(again, Op.ALLOCATE, Op.FREE) == plain_rows(moe, Op.ALLOCATE, Op.FREE)
    assert {"leaves out steps", "leaves out tags"} <= set(lost_in(moe, "moe.rmm.csv"))


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.rmm.csv"])
@pytest.mark.parametrize("kind", ["state", "warm", "complete"])
def test_a_format_without_metadata_says_that_it_loses_an_incomplete_history(tmp_path, name, kind):
    job = {"state": state_job, "warm": late_job, "complete": scattered_job}[kind]()
    trace = Trace.load(job.save(tmp_path / "job.pickle"))
    trace.save(tmp_path / name)
    assert (trace.history.kind, Trace.load(tmp_path / name).history.kind) == (kind, "complete")
    said = [text for text in lost_in(trace, name) if "that the history is not complete" in text]
    assert len(said) == (kind != "complete")
    assert "leaves out settings and other metadata" in lost_in(trace, name)


@pytest.mark.parametrize("name", ["a.npz", "a.parquet", "a.pickle"])
def test_a_format_with_metadata_keeps_an_incomplete_history(tmp_path, name):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    trace = Trace.load(state_job().save(tmp_path / "job.pickle"))
    trace.save(tmp_path / name)
    assert Trace.load(tmp_path / name).history == trace.history
    assert not any("history" in text for text in lost_in(trace, name))


def test_csv_comes_back_with_times_and_tags(tmp_path):
    trace = Trace(
        [Op.ALLOCATE, Op.STEP, Op.FREE], [0, 1, 0], [100, 0, 0], time=[5, 6, 7], tag=[0, 1, 1], tags=['a, "b"\nc', ""]
    )
    trace.save(tmp_path / "a.csv")
    assert Trace.load(tmp_path / "a.csv") == trace
    assert (tmp_path / "a.csv").read_text().startswith("op,id,bytes,stream,time,tag\nallocate,0,100,0,5,")
    assert lost_in(trace, "a.csv") == []


def test_csv_of_every_example_row_comes_back(moe, tmp_path):
    moe.save(tmp_path / "a.csv")
    assert same_rows(Trace.load(tmp_path / "a.csv"), moe)
    assert lost_in(moe, "a.csv") == ["leaves out settings and other metadata"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("allocate,0,100", "has 3 cells and not 4"),
        ("borrow,0,100,0", "has the operation 'borrow'; known: allocate"),
        ("allocate,0,-5,0", "has the bytes '-5'"),
        ("allocate,0,5,70000", "has the stream '70000'"),
        ("free,0,0,0", "row 0|line 2"),
    ],
)
def test_a_wrong_line_of_csv_is_named(line, reason, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"op,id,bytes,stream\n{line}\n")
    with pytest.raises(TraceError, match=f"line 2.*{reason}|{reason}"):
        Trace.load(path)


def test_parquet_comes_back(moe, tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra 'parquet')")
    moe.save(tmp_path / "a.parquet")
    assert Trace.load(tmp_path / "a.parquet") == moe
    assert lost_in(moe, "a.parquet") == []


def test_a_foreign_or_damaged_parquet_file_is_refused(moe, tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra 'parquet')")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "foreign.parquet")
    with pytest.raises(TraceError, match="no trace that memlake wrote"):
        Trace.load(tmp_path / "foreign.parquet")
    moe.save(tmp_path / "whole.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "whole.parquet").read_bytes()[:-100])
    with pytest.raises(TraceError, match="no whole Parquet file"):
        Trace.load(tmp_path / "cut.parquet")


def test_perfetto_has_counters_of_each_policy_and_stream_and_slices_of_steps(moe, tmp_path, compared_policies):
    save_perfetto(moe, tmp_path / "a.perfetto.json.gz")
    events = json.loads(gzip.decompress((tmp_path / "a.perfetto.json.gz").read_bytes()))["traceEvents"]
    counters = {event["name"] for event in events if event["ph"] == "C"}
    assert {"live", "live on stream 0", *(f"held by {name}" for name in compared_policies)} <= counters
    slices = [event for event in events if event["ph"] == "X"]
    assert [event["name"] for event in slices] == [f"step {step.number}" for step in moe.steps]
    assert all(first["ts"] + first["dur"] <= second["ts"] + 1 for first, second in pairwise(slices))
    live = [event["args"]["bytes"] for event in events if event["name"] == "live"]
    assert max(live) == moe.peak_live
    assert any("no times" in text for text in lost_in_perfetto(moe))


def test_perfetto_marks_where_memory_ran_out(tmp_path):
    trace = Trace.load(scattered_job().save(tmp_path / "a.pickle"))
    save_perfetto(trace, tmp_path / "a.perfetto.json")
    events = json.loads((tmp_path / "a.perfetto.json").read_text())["traceEvents"]
    marks = {event["name"] for event in events if event["ph"] == "i"}
    assert {"the job ran out of memory", "caching runs out of memory"} <= marks
    times = [event["ts"] for event in events if event["ph"] == "C" and event["name"] == "live"]
    assert times == sorted(times)
    assert times[-1] > 0


def test_an_empty_trace_gives_no_perfetto_file(tmp_path):
    with pytest.raises(ConfigError, match=r"no allocations.*hint:"):
        save_perfetto(Trace([], [], []), tmp_path / "a.perfetto.json")
    assert list(tmp_path.iterdir()) == []
