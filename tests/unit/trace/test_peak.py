"""What was live at the peak, by call site."""

import sys

import pytest

from helpers.torch_snapshots import MIB, Refused, TorchJob
from memlake import ConfigError, Trace
from memlake.trace import Op, load_example


def test_the_rows_are_what_was_live_at_the_peak_the_largest_first():
    op = [Op.ALLOCATE, Op.ALLOCATE, Op.FREE, Op.ALLOCATE, Op.ALLOCATE, Op.FREE]
    trace = Trace(op, [0, 1, 0, 2, 3, 2], [8000, 100, 0, 8192, 1024, 0], tag=[0, 1, 0, 1, 2, 0], tags=["", "a", "b"])
    peak = trace.peak()
    assert (peak.row, peak.nbytes, peak.count, peak.scope) == (4, 512 + 8192 + 1024, 3, "job")
    assert [(row.site.text, row.site.rule, row.nbytes, row.count) for row in peak] == [
        ("a", "tag", 512 + 8192, 2),
        ("b", "tag", 1024, 1),
    ]
    assert peak.nbytes == trace.peak_live


def test_a_refused_request_was_never_live(tmp_path):
    job = TorchJob(256)
    job.alloc(200)
    with pytest.raises(Refused):
        job.alloc(100)
    trace = Trace.load(job.save(tmp_path / "snapshot.pickle"))
    assert trace.peak_live == 300 * MIB
    assert trace.peak().nbytes == 200 * MIB
    assert [row.count for row in trace.peak()] == [1]
    # A part of a trace has no record, but still knows what was refused.
    part = trace[0 : len(trace)]
    assert part.recorded is None
    assert part.peak().nbytes == 200 * MIB


def test_what_was_allocated_before_the_recording_is_named_so(tmp_path):
    job = TorchJob()
    job.is_recording = False
    job.alloc(300)
    job.is_recording = True
    job.alloc(40)
    job.free(job.alloc(20))
    peak = Trace.load(job.save(tmp_path / "snapshot.pickle")).peak()
    assert peak.scope == "recorded part"
    assert [(row.site.text, row.nbytes // MIB) for row in peak] == [
        ("(allocated before the recording)", 300),
        ("train.py:12 forward", 60),
    ]
    assert peak.with_site == 60 * MIB
    assert "peak of the recorded part" in peak.sentence


def test_a_state_has_no_peak_and_says_so(tmp_path):
    job = TorchJob()
    job.alloc(300)
    job.events.clear()
    peak = Trace.load(job.save(tmp_path / "snapshot.pickle")).peak()
    assert (peak.scope, peak.nbytes) == ("moment", 300 * MIB)
    assert peak.sentence.endswith("The peak is not known.")


def test_the_one_event_of_a_state_is_no_peak(tmp_path):
    job = TorchJob()
    job.alloc(300)
    job.free(job.alloc(50))
    del job.events[:-1]
    trace = Trace.load(job.save(tmp_path / "snapshot.pickle"))
    assert trace.history.kind == "state"
    assert trace.peak_live == 350 * MIB
    assert trace.peak().nbytes == 300 * MIB
    assert sum(row.nbytes for row in trace.peak()) == 300 * MIB


@pytest.mark.parametrize("name", ["train_opt-13b_lora_offload"])
def test_sites_and_categories_add_up_to_the_peak(name):
    trace = load_example(name)
    peak = trace.peak()
    assert peak.nbytes == trace.peak_live == sum(row.nbytes for row in peak) == sum(peak.categories.values())
    assert peak.count == sum(row.count for row in peak)
    assert peak.row == trace.peak_row


def test_an_empty_trace_has_an_empty_peak():
    peak = Trace([], [], []).peak()
    assert (peak.row, peak.nbytes, len(peak), str(peak)) == (None, 0, 0, "Nothing is allocated.")


def test_sizes_beyond_64_bits_are_summed():
    trace = Trace([Op.ALLOCATE] * 3, [0, 1, 2], [2**62] * 3)
    assert trace.peak().nbytes == 3 * 2**62
    assert trace.peak().rows[0].nbytes == 3 * 2**62


def test_pandas_gets_one_line_per_call_site():
    frame = Trace([Op.ALLOCATE] * 3, [0, 1, 2], [700, 5000, 9], tag=[1, 0, 1], tags=["a", "b"]).peak().to_pandas()
    assert list(frame.columns) == ["site", "rule", "file", "line", "function", "bytes", "count"]
    assert frame["site"].tolist() == ["a", "b"]
    assert frame["bytes"].tolist() == [5120, 1024 + 512]
    assert frame["count"].tolist() == [1, 2]


def test_without_pandas_to_pandas_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match="pip install pandas"):
        Trace([Op.ALLOCATE], [0], [5]).peak().to_pandas()
