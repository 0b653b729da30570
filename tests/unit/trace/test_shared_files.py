"""Large traces and snapshots of real GPUs, which are not part of the project; skipped where they are not at hand."""

import json

import numpy as np
import pytest

from memlake import Trace
from memlake.trace import Op

# File: allocations among the events, segments at the end, allocations before the first event, complete from the start.
SNAPSHOTS = {
    "bcrafton_memory_snapshot": (2162, 96, 447, False),
    "lfielike_my_snapshot": (0, 259, 840, False),
    "mosaic_output": (520, 5, 17, False),
    "niuhx_fwd_100": (785, 31, 0, True),
    "niuhx_fwdbwd_100": (3853, 65, 0, True),
    "niuhx_fwdbwd_200_mixed": (4404, 88, 0, True),
    "silmont_mem_snapshot": (36, 9, 0, True),
    "silmont_memory_forward_bf16_128": (937, 43, 137, False),
    "silmont_memory_forward_fp32_128": (681, 29, 137, False),
    "wedson_medium_1024_training": (7591, 234, 664, False),
    "wedson_medium_128_inference": (1280, 98, 223, False),
    "wedson_medium_256_training": (6624, 495, 664, False),
    "wedson_medium_512_training": (7591, 400, 664, False),
    "yiyi_1.3b_snapshot": (0, 257, 786, False),
    "yiyi_oom_snapshot": (0, 176, 460, False),
    "zijiandu_memory": (0, 499, 2524, False),
}


def test_every_trace_has_the_live_peak_that_was_measured(shared):
    measured = json.loads((shared / "traces" / "pytorch-2.13-fit.json").read_text())
    for path in sorted((shared / "traces").iterdir()):
        if path.suffix in (".npz", ".txt"):
            assert Trace.load(path).peak_live == measured[path.stem]["live"], path.stem


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_every_snapshot_is_read(shared, name):
    trace = Trace.load(shared / "snapshots" / f"{name}.pickle")
    num_allocations, num_segments, num_carried, is_complete = SNAPSHOTS[name]
    assert trace.num_allocations == num_allocations + num_carried
    assert trace.metadata["num_carried"] == num_carried
    assert trace.metadata["implied_frees"] == trace.metadata["unmatched_frees"] == 0
    recorded = trace.recorded
    assert recorded.is_complete == is_complete
    assert len(recorded.final) == num_segments
    if name != "mosaic_output":
        # What the record says is live at the end is what its rows leave live; mosaic's numbers are random.
        live = set(range(trace.num_allocations)) - set(trace.id[trace.op == Op.FREE].tolist())
        final = [block for segment in recorded.final for block in segment.blocks if block.state == "live"]
        assert {block.id for block in final} == live
        sizes = trace.bytes[trace.op == Op.ALLOCATE]
        assert all(sizes[block.id] == block.requested for block in final)
    for segment in recorded.initial:
        assert sum(block.nbytes for block in segment.blocks) == segment.nbytes


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_every_snapshot_can_be_written_again(shared, name, tmp_path):
    trace = Trace.load(shared / "snapshots" / f"{name}.pickle")
    trace.save(tmp_path / "again.pickle")
    again = Trace.load(tmp_path / "again.pickle")
    assert all(
        np.array_equal(getattr(again, column), getattr(trace, column)) for column in ("op", "id", "bytes", "stream")
    )
    assert again.recorded.events == trace.recorded.events
    if name not in ("mosaic_output", "yiyi_1.3b_snapshot", "yiyi_oom_snapshot"):
        # mosaic's keys are of no version of PyTorch, and the form of torch 2.0 is not written.
        assert again == trace


def test_no_snapshot_is_forgotten(shared):
    assert {path.stem for path in (shared / "snapshots").glob("*.pickle")} == set(SNAPSHOTS)


def test_a_large_trace_survives_every_format(shared, tmp_path):
    trace = Trace.load(shared / "traces" / "opt-13b_LR_b48_g4_fixed.npz")
    trace.save(tmp_path / "out.npz")
    assert Trace.load(tmp_path / "out.npz") == trace
    part = trace.in_steps(2, 3)
    part.save(tmp_path / "out.txt")
    assert np.array_equal(Trace.load(tmp_path / "out.txt").bytes, part.bytes)
