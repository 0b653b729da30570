"""The free pieces at the row of a refused request."""

import pickle

import pytest

from helpers import torch_snapshots
from helpers.torch_snapshots import BASE, MIB, Refused, TorchJob
from memlake import Trace
from memlake.analysis import overview
from memlake.analysis.free_pieces import FreePiece, free_pieces_at


def test_neighbouring_segments_of_two_pools_are_two_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_snapshots, "SPACING", 600 * MIB)
    job = TorchJob(1024)
    job.free(job.alloc(600))
    job.alloc(560)
    job.free(job.alloc(300, (0, 3)))
    with pytest.raises(Refused):
        job.alloc(200)
    trace = Trace.load(job.save(tmp_path / "snapshot.pickle"))
    assert free_pieces_at(trace, trace.oom.row) == [FreePiece(40 * MIB, 0, (0, 0)), FreePiece(300 * MIB, 0, (0, 3))]
    assert overview(trace).shortage.kind == "private pool"


def test_a_released_segment_has_no_pieces_and_a_later_one_none_yet(tmp_path):
    job = TorchJob(256)
    job.free(job.alloc(100))
    job.alloc(90)
    with pytest.raises(Refused):
        job.alloc(200)
    row = Trace.load(job.save(tmp_path / "snapshot.pickle")).oom.row
    job.alloc(120)
    trace = Trace.load(job.save(tmp_path / "snapshot.pickle"))
    assert trace.oom.row == row
    assert free_pieces_at(trace, row) == [FreePiece(10 * MIB, 0, (0, 0))]


def test_parts_of_an_expandable_segment_are_joined_and_unmapped_parts_are_gone(tmp_path):
    def event(action, at, mib, **more):
        place = {} if at is None else {"addr": BASE + at * MIB}
        return {"action": action, **place, "size": mib * MIB, "stream": 0, "frames": [], **more}

    events = [event("segment_map", at, 20) for at in (0, 20, 40)]
    events += [event("alloc", 0, 15), event("segment_unmap", 40, 20), event("oom", None, 64, device_free=0)]
    blocks = [
        {"address": BASE, "size": 15 * MIB, "requested_size": 15 * MIB, "state": "active_allocated", "frames": []},
        {"address": BASE + 15 * MIB, "size": 25 * MIB, "requested_size": 0, "state": "inactive", "frames": []},
    ]
    segment = {
        "device": 0, "address": BASE, "total_size": 40 * MIB, "stream": 0, "segment_type": "large",
        "segment_pool_id": (0, 0), "is_expandable": True, "frames": [], "blocks": blocks,
    }  # fmt: skip
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [events]}, 4))
    trace = Trace.load(path)
    assert free_pieces_at(trace, trace.oom.row) == [FreePiece(25 * MIB, 0, (0, 0))]
    found = overview(trace)
    assert (found.held_peak, found.shortage.kind) == (60 * MIB, "no memory")


def test_addresses_outside_all_segments_are_no_layout(tmp_path):
    job = TorchJob(256)
    job.alloc(100)
    job.events[-1]["addr"] += 2**40
    with pytest.raises(Refused):
        job.alloc(200)
    trace = Trace.load(job.save(tmp_path / "snapshot.pickle"))
    assert free_pieces_at(trace, trace.oom.row) is None
    assert overview(trace).shortage.largest_free is None
