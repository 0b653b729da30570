"""The members of .npz files for the record and for the context of a trace."""

import json

import numpy as np
import pytest

from memlake import Trace, TraceError
from memlake.trace import Op, verify

MIB = 1024**2
BASE = 0x7F0000000000


@pytest.fixture
def trace(record, load):
    frames = [{"filename": "/home/someone/model.py", "line": 12, "name": "forward"}]
    record.event("segment_alloc", BASE, 2 * MIB, frames=frames)
    record.alloc(BASE, 1000, frames=frames, category="weights")
    record.alloc(BASE + 1024, 5)
    record.free(BASE, 1000)
    record.event("oom", 0, 4096, device_free=17)
    record.segment(BASE, [(1024, 1000, "inactive"), (512, 5, "active_allocated"), (2 * MIB - 1536, 0, "inactive")])
    annotation = {"name": "step", "stage": "START", "device": 0, "time_us": 17}
    return load(record.snapshot() | {"external_annotations": [annotation]})


def members(path):
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


def test_a_file_keeps_the_record_and_the_context(trace, tmp_path):
    trace.save(tmp_path / "out.npz")
    again = Trace.load(tmp_path / "out.npz")
    assert again == trace
    ours, theirs = again.recorded, trace.recorded
    assert ours.addresses.tolist() == theirs.addresses.tolist()
    assert (ours.events, ours.initial, ours.final) == (theirs.events, theirs.initial, theirs.final)
    assert ours.is_complete
    assert ours.events[1].device_free == 17
    assert list(again.context.stacks) == list(trace.context.stacks)
    assert [again.stack_of(row) for row in range(3)] == [trace.stack_of(row) for row in range(3)]
    assert again.context.labels["category"][0] == "weights"
    assert again.context.annotations == trace.context.annotations
    assert verify(again).num_allocations == 2
    again.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "out.npz").read_bytes()


def test_a_part_keeps_its_context_and_has_no_record(trace, tmp_path):
    trace[1:].save(tmp_path / "out.npz")
    part = Trace.load(tmp_path / "out.npz")
    assert part.recorded is None
    assert part.stack_of(0) == trace.stack_of(0) != ()


def test_a_file_without_these_members_is_still_a_trace(trace, tmp_path):
    trace.save(tmp_path / "out.npz")
    old = {name: array for name, array in members(tmp_path / "out.npz").items()
           if name in ("op", "id", "bytes", "stream", "tag", "tags", "meta", "time")}  # fmt: skip
    np.savez(tmp_path / "old.npz", **old)
    again = Trace.load(tmp_path / "old.npz")
    assert again == trace
    assert again.recorded is None
    assert again.context is None


def text(value):
    return np.array(json.dumps(value))


ABOUT = {"is_complete": True, "kinds": ["oom", "segment_alloc"], "num_initial": 0}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("stack", np.zeros(6, np.uint32), "6 rows of stack, and the trace has 5 rows"),
        ("stack", np.array([9, 0, 0, 0, 0]), "has no stack 9"),
        ("stack", np.array([-1, 0, 0, 0, 0]), "more than 32 bits"),
        ("stack_starts", np.array([0, 0, 7]), "the last must end with the frames"),
        ("stack_frames", None, "there are stacks, but no stack_frames"),
        ("frame_texts", text(["only one"]), "there is no"),
        ("frame_texts", text({}), "must be a JSON list of strings"),
        ("labels", text([]), "labels must be a JSON object"),
        ("labels", text({}), "label category must be a JSON list of strings"),
        ("label_category", np.array([7, 0, 0, 0, 0]), "has no category 7"),
        ("annotations", text([["step", "START", 0]]), "an annotation must have"),
        ("annotations", text(5), "annotations must be a JSON list"),
        ("record", text([]), "no description of it"),
        ("record", text(ABOUT | {"kinds": [5]}), "must be a list of strings"),
        ("record", text(ABOUT | {"kinds": ["oom"]}), "kind 1"),
        ("record", text(ABOUT | {"num_initial": 2}), "there are no 2 segments"),
        ("record", text(ABOUT | {"num_initial": -1}), "there are no -1 segments"),
        ("record", text(ABOUT | {"is_complete": 1}), "is_complete true or false"),
        ("record_address", np.zeros(2, np.uint64), "2 addresses, and the trace has 5 rows"),
        ("record_address", None, "but no record_address"),
        ("record_event_row", np.array([0, 6]), "names row 6"),
        ("record_event_row", np.array([0]), "different lengths"),
        ("record_event_stack", np.array([0, 9]), "names a stack, and there are 2"),
        ("record_segment_blocks", np.array([4]), "more blocks than there are"),
        ("record_segment_blocks", np.array([2]), "have 2 blocks, and there are 3"),
        ("record_block_state", np.array([0, 1, 3]), "has state 3"),
        ("record_block_id", np.array([0, 3, -1]), "and id 3"),
        ("record_block_bytes", np.array([-5, 2, 1]), "a negative number"),
        ("record_block_bytes", np.zeros(3), "is not a list of whole numbers"),
    ],
)
def test_members_that_contradict_each_other_are_refused(trace, tmp_path, name, value, reason):
    trace.save(tmp_path / "good.npz")
    changed = members(tmp_path / "good.npz")
    assert name in changed
    changed.pop(name)
    np.savez(tmp_path / "bad.npz", **(changed if value is None else changed | {name: value}))
    with pytest.raises(TraceError, match=reason) as caught:
        Trace.load(tmp_path / "bad.npz")
    assert caught.value.path == str(tmp_path / "bad.npz")


def test_a_record_that_would_fill_the_memory_is_refused(trace, tmp_path):
    trace.save(tmp_path / "good.npz")
    many = {name: np.zeros(1_000_000, array.dtype) if name.startswith("record_block_") else array
            for name, array in members(tmp_path / "good.npz").items()}  # fmt: skip
    np.savez_compressed(tmp_path / "bad.npz", **many)
    with pytest.raises(TraceError, match=r"takes more memory than is allowed|needs about"):
        Trace.load(tmp_path / "bad.npz", memory_limit="100MiB")


def test_the_record_of_an_rmm_log_is_kept(load, tmp_path):
    log = load("Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.000001,allocate failure,(nil),99,0x0\n")
    log.save(tmp_path / "out.npz")
    again = Trace.load(tmp_path / "out.npz")
    assert again.recorded.events == log.recorded.events
    assert again.recorded.events[0].device_free is None
    assert not (again.op == Op.ALLOCATE).any()
