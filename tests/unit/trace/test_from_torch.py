import pytest

from memlake import ConfigError, Trace, TraceError
from memlake.trace import Op

A, F, R, D = Op.ALLOCATE, Op.FREE, Op.RECORD_STREAM, Op.EVENT_DONE
MIB = 1024**2
BASE = 0x7F0000000000


def rows(trace):
    return [(row.op, row.id, row.bytes, row.stream) for row in trace]


def frames(filename="/home/someone/model.py", line=12):
    return [{"filename": filename, "line": line, "name": "forward"}]


def test_a_complete_record(record, load):
    record.event("segment_alloc", BASE, 2 * MIB)
    record.alloc(BASE, 1000, frames=frames())
    record.alloc(BASE + 1024, 5)
    record.free(BASE, 1000)
    record.event("oom", 0, 4096, device_free=17)
    record.event("snapshot", 0, 512)
    record.segment(BASE, [(1024, 1000, "inactive"), (512, 5, "active_allocated"), (2 * MIB - 1536, 0, "inactive")])
    trace = load(record)

    # The request for which PyTorch had no memory is a row as well.
    assert rows(trace) == [(A, 0, 1000, 0), (A, 1, 5, 0), (F, 0, 0, 0), (A, 2, 4096, 0), (F, 2, 0, 0)]
    assert (trace.time - trace.time[0]).tolist() == [0, 1, 2, 4, 4]
    assert trace[0].tag == "model.py:12 forward"
    assert trace[1].tag == ""
    assert trace.metadata["is_complete"]
    assert trace.metadata["allocator_settings"] == {
        "expandable_segments": False,
        "roundup_power2_divisions": {"1": 0},
    }
    recorded = trace.recorded
    assert recorded.is_complete
    assert recorded.addresses.tolist() == [BASE, BASE + 1024, 0, 0, 0]
    assert recorded.initial == ()
    assert [(event.row, event.kind, event.address, event.nbytes) for event in recorded.events] == [
        (0, "segment_alloc", BASE, 2 * MIB),
        (3, "oom", 0, 4096),
        (5, "snapshot", 0, 512),
    ]
    assert recorded.events[1].device_free == 17
    (segment,) = recorded.final
    assert (segment.kind, segment.stream, segment.is_expandable, segment.pool) == ("small", 0, False, (0, 0))
    assert [(block.nbytes, block.requested, block.state, block.id) for block in segment.blocks] == [
        (1024, 0, "free", None),
        (512, 5, "live", 1),
        (2 * MIB - 1536, 0, "free", None),
    ]


def test_what_was_there_before_is_allocated_first_by_address(record, load):
    record.alloc(BASE, 100, stream=8)
    record.free(BASE + 4096, 300, stream=8)
    record.free(BASE + 512, 200)
    record.segment(
        BASE, [(512, 100, "active_allocated"), (7680, 0, "inactive"), (512, 7, "active_allocated")], stream=8
    )
    trace = load(record)
    assert rows(trace) == [(A, 0, 200, 0), (A, 1, 300, 1), (A, 2, 7, 1), (A, 3, 100, 1), (F, 1, 0, 0), (F, 0, 0, 0)]
    assert trace.time.tolist()[:4] == [record.events[0]["time_us"]] * 4
    assert trace.metadata["num_carried"] == 3
    assert trace.recorded.addresses.tolist()[:4] == [BASE + 512, BASE + 4096, BASE + 8192, BASE]


def test_a_state_without_events_is_its_live_blocks(record, load):
    record.segment(BASE, [(512, 5, "active_allocated"), (512, 0, "inactive"), (1024, 600, "active_pending_free")])
    snapshot = record.snapshot()
    trace = load(snapshot)
    assert rows(trace) == [(A, 0, 5, 0), (A, 1, 600, 0)]
    assert trace.time is None
    assert load(snapshot["segments"]) == load({"segments": snapshot["segments"]})
    assert rows(load(snapshot["segments"])) == rows(trace)


def test_the_snapshots_of_torch_2_0(load):
    history = [{"addr": BASE + 512, "real_size": 1000, "frames": frames()}]
    blocks = [
        {"size": 512, "state": "inactive"},
        {"size": 1024, "state": "active_allocated", "history": history},
        {"size": 512, "state": "active_awaiting_free", "requested_size": 3, "history": history},
    ]
    segment = {"device": 0, "address": BASE, "total_size": 2048, "stream": 0, "segment_type": "small", "blocks": blocks}
    trace = load(
        {"segments": [segment], "device_traces": [[{"action": "snapshot", "addr": 0, "size": 1, "stream": 0}]]}
    )
    assert rows(trace) == [(A, 0, 1000, 0), (A, 1, 3, 0)]
    assert trace.recorded.addresses.tolist() == [BASE + 512, BASE + 1536]
    assert [block.state for block in trace.recorded.final[0].blocks] == ["free", "live", "pending"]
    assert trace[0].tag == "model.py:12 forward"


def test_a_segment_without_any_detail_is_enough(load):
    blocks = [{"size": 512, "state": "active_allocated"}]
    assert rows(load([{"address": BASE, "total_size": 512, "blocks": blocks}])) == [(A, 0, 512, 0)]


def test_the_device_with_most_events_is_taken_unless_told_otherwise(record, load):
    record.segment(BASE, [(512, 5, "active_allocated")], device=3)
    one = {"action": "alloc", "addr": 1, "size": 10, "stream": 0}
    two = [one, {"action": "alloc", "addr": 2, "size": 20, "stream": 0}]
    snapshot = {"segments": record.segments, "device_traces": [[one], [], two]}
    trace = load(snapshot)
    assert trace.bytes.tolist() == [10, 20]
    assert trace.metadata["device"] == 2
    assert trace.metadata["device_chosen"] == "it has most events"
    assert trace.metadata["devices"] == {"0": 1, "2": 2, "3": 0}
    assert load(snapshot, device=0).bytes.tolist() == [10]
    assert load(snapshot, device=3).bytes.tolist() == [5]
    assert load(snapshot, device=3).metadata["device_chosen"] == "by the caller"
    with pytest.raises(ConfigError, match="says nothing of device 1; hint: it knows 0, 2, 3"):
        load(snapshot, device=1)


def test_only_snapshots_know_devices(load):
    with pytest.raises(ConfigError, match="only PyTorch snapshots know devices"):
        load("y\n", device=0)


def test_a_free_that_waits_is_recorded_on_a_stream_of_its_own(record, load):
    record.alloc(1, 10, stream=7)
    record.alloc(2, 20)
    record.event("free_requested", 1, 10, stream=7)
    record.free(2, 20)
    record.event("free_completed", 1, 10, stream=7)
    trace = load(record)
    assert rows(trace) == [(A, 0, 10, 1), (A, 1, 20, 0), (R, 0, 0, 2), (F, 0, 0, 0), (F, 1, 0, 0), (D, 0, 0, 0)]
    assert trace.metadata["unknown_stream"] == 2
    assert trace.metadata["streams"][:2] == [0, 7]


def test_a_free_that_waits_at_the_end_is_pending(record, load):
    record.alloc(BASE, 10)
    record.alloc(BASE + 512, 20)
    record.free(BASE + 512, 20)
    record.event("free_requested", BASE, 10)
    record.segment(BASE, [(512, 10, "active_pending_free"), (512, 0, "inactive")])
    trace = load(record)
    assert rows(trace)[-2:] == [(R, 0, 0, 1), (F, 0, 0, 0)]
    assert [(block.state, block.id) for block in trace.recorded.final[0].blocks] == [("pending", 0), ("free", None)]


@pytest.mark.parametrize("kept", ["free_requested", "free_completed"])
def test_one_of_the_two_events_of_a_free_is_enough(record, load, kept):
    record.alloc(1, 10)
    record.event(kept, 1, 10)
    record.event(kept, 2, 20)
    assert rows(load(record)) == [(A, 0, 20, 0), (A, 1, 10, 0), (F, 1, 0, 0), (F, 0, 0, 0)]


def test_two_allocations_at_one_place_imply_a_free(record, load):
    record.alloc(1, 10)
    record.alloc(1, 20)
    trace = load(record)
    assert rows(trace) == [(A, 0, 10, 0), (F, 0, 0, 0), (A, 1, 20, 0)]
    assert trace.metadata["implied_frees"] == 1


def test_a_pending_place_that_is_used_again_is_done(record, load):
    record.alloc(1, 10)
    record.event("free_requested", 1, 10)
    record.alloc(1, 20)
    record.free(1, 20)
    assert [row.op for row in load(record)] == [A, R, F, D, A, F]


def test_a_free_without_an_allocation_in_the_record_is_counted_and_left_out(record, load):
    record.alloc(1, 10)
    record.free(1, 10)
    record.free(1, 10)
    trace = load(record)
    assert rows(trace) == [(A, 0, 10, 0), (F, 0, 0, 0)]
    assert trace.metadata["unmatched_frees"] == 1


def test_unknown_events_are_counted(record, load):
    record.alloc(1, 10)
    record.event("user_defined", 0, 0)
    assert load(record).metadata["ignored_events"] == {"user_defined": 1}


def test_records_without_times_have_none(record, load):
    record.alloc(1, 10)
    del record.events[0]["time_us"]
    assert load(record).time is None


def test_streams_keep_the_order_of_their_handles(record, load):
    for place, stream in enumerate([900, 0, -1, 1, 700]):
        record.alloc(place, 1, stream=stream)
    trace = load(record)
    assert trace.stream.tolist() == [2, 0, 3, 0, 1]
    assert trace.metadata["streams"] == [0, 700, 900, 2**64 - 1]


def test_a_trace_of_a_snapshot_can_be_saved(record, load, tmp_path):
    record.alloc(1, 10, frames=frames())
    trace = load(record)
    trace.save(tmp_path / "out.npz")
    again = Trace.load(tmp_path / "out.npz")
    assert again == trace
    assert again.recorded.events == trace.recorded.events
    assert again.stack_of(0) == trace.stack_of(0) != ()


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (None, "a value of type NoneType stands where a dict should"),
        ({}, "action must be a string, not None"),
        ({"action": 3}, "action must be a string, not 3"),
        ({"action": "alloc", "size": 1}, "addr must be a whole number from 0 to 18446744073709551615, not None"),
        ({"action": "alloc", "addr": 1}, "size must be a whole number"),
        ({"action": "alloc", "addr": "1", "size": 1}, "addr must be a whole number .* not '1'"),
        ({"action": "alloc", "addr": 1, "size": 2**63}, "size must be .* not 9223372036854775808"),
        ({"action": "alloc", "addr": 1, "size": -1}, "size must be .* not -1"),
        ({"action": "alloc", "addr": 1, "size": 1.5}, "size must be .* not 1.5"),
        ({"action": "alloc", "addr": 1, "size": float("nan")}, "size must be .* not nan"),
        ({"action": "alloc", "addr": 1, "size": True}, "size must be .* not True"),
        ({"action": "alloc", "addr": 2**64, "size": 1}, "addr must be"),
        ({"action": "alloc", "addr": 1, "size": 1, "stream": "x"}, "stream must be"),
        ({"action": "free_completed", "addr": [], "size": 1}, "addr must be .* not a value of type list"),
        ({"action": "oom", "size": 1, "device_free": -5}, "device_free must be"),
    ],
)
def test_a_wrong_event_is_named(record, load, event, reason):
    record.alloc(1, 10)
    record.events.append(event)
    with pytest.raises(TraceError, match=reason) as caught:
        load(record)
    assert caught.value.place == "device_traces[0][1]"


@pytest.mark.parametrize(
    ("snapshot", "place", "reason"),
    [
        ({}, "top level", "neither segments nor device_traces"),
        ({"weights": []}, "top level", "neither segments nor device_traces"),
        (5, "top level", "a value of type int stands where a dict should"),
        (None, "top level", "a value of type NoneType"),
        ({"segments": [], "device_traces": [[], []]}, None, "has no segments and no events"),
        ([], None, "has no segments and no events"),
        ({"segments": {}}, "top level", "segments must be a list"),
        ({"device_traces": [5]}, "device_traces[0]", "a value of type int stands where a list should"),
        ([5], "segments[0]", "a value of type int stands where a dict should"),
        ([{"total_size": 5}], "segments[0]", "address must be a whole number"),
        ([{"address": 0, "total_size": -1}], "segments[0]", "total_size must be a whole number"),
        ([{"address": 0, "total_size": 1, "device": "cuda"}], "segments[0]", "device must be a whole number"),
        ([{"address": 0, "total_size": 1, "blocks": [{}]}], "segments[0].blocks[0]", "size must be a whole number"),
        ([{"address": 0, "total_size": 1, "blocks": [{"size": 1, "state": "odd"}]}], "segments[0].blocks[0]", "'odd'"),
        ([{"address": 0, "total_size": 1, "blocks": [[]]}], "segments[0].blocks[0]", "a value of type list"),
    ],
)
def test_what_is_no_snapshot_is_refused(load, snapshot, place, reason):
    with pytest.raises(TraceError, match=reason) as caught:
        load(snapshot)
    assert caught.value.place == place


def test_made_up_segments_that_overlap_are_read_in_reasonable_time(load):
    # Each of them claims to hold every block: looking at each pair would take hours.
    blocks = [{"size": 512, "state": "active_allocated", "address": 4096 * n} for n in range(20_000)]
    segments = [{"address": n, "total_size": 2**62, "blocks": []} for n in range(20_000)]
    segments[0]["blocks"] = blocks
    assert len(load(segments)) == 20_000


def test_nothing_of_an_event_is_hashed_before_its_type_is_known(record, load):
    endless = ()
    for _ in range(60):
        endless = (endless, endless)
    record.alloc(1, 10)
    (event,) = record.events
    for key in ("action", "addr", "size", "stream"):
        record.events = [event | {key: endless}]
        with pytest.raises(TraceError, match=f"{key} must be"):
            load(record)
    record.events = [event | {"time_us": endless, "frames": endless}]
    assert load(record).time is None


def test_all_frames_of_an_event_are_kept_once(record, load):
    native = {"filename": "/torch/csrc/a.cpp", "line": 1, "name": "at::empty"}
    stack = [native, *frames(), *frames("/home/someone/train.py", 3)]
    for place in range(10):
        # Each event has a list of its own; PyTorch shares the frames, but not the lists.
        record.alloc(place, 10, frames=[dict(frame) for frame in stack])
    record.free(0, 10)
    record.event("oom", 0, 4096, frames=stack[1:], device_free=0)
    trace = load(record)
    context = trace.context
    wanted = tuple((frame["filename"], frame["line"], frame["name"]) for frame in stack)
    assert trace.stack_of(0) == trace.stack_of(9) == wanted
    assert context.stacks[0] == ()
    assert (len(context.stacks), context.stacks.num_frames) == (3, 3)
    assert set(context.stack[:10].tolist()) == {int(context.stack[0])}
    assert trace.stack_of(10) == ()
    assert context.stacks[trace.recorded.events[0].stack] == wanted[1:]
    assert trace[0].tag == "model.py:12 forward"
    part = trace[5:]
    assert part.stack_of(0) == wanted
    assert [part.stack_of(row) for row in range(len(part))] == [wanted] * 10 + [(), wanted[1:], ()]


def test_what_is_no_frame_is_left_out(record, load):
    good = frames()[0]
    odd = [None, 5, {}, good | {"line": "12"}, good | {"line": -1}, good | {"line": 2**32}, good | {"name": None}, good]
    record.alloc(1, 10, frames=odd)
    record.alloc(2, 10, frames="model.py")
    record.alloc(3, 10, frames=odd[:-1])
    trace = load(record)
    assert [len(trace.stack_of(row)) for row in range(3)] == [1, 0, 0]
    assert trace[0].tag == "model.py:12 forward"


def test_the_stacks_of_live_blocks_are_those_of_the_first_rows(record, load):
    record.segment(BASE, [(512, 5, "active_allocated")])
    record.segments[0]["blocks"][0]["frames"] = frames()
    trace = load(record.segments)
    assert trace.stack_of(0) == (("/home/someone/model.py", 12, "forward"),)
    assert trace[0].tag == "model.py:12 forward"


def test_labels_and_annotations_are_kept(record, load):
    record.alloc(1, 10, user_metadata="loader", compile_context="N/A", pool_id=(0, 0), category="activation")
    record.alloc(2, 10, user_metadata="", compile_context="0/1", pool_id=(1, 7))
    record.alloc(3, 10, user_metadata=5, compile_context=None, pool_id=(1, 7, 9), category="activation")
    annotation = {"name": "Optimizer.step#Adam.step", "stage": "START", "device": 0, "time_us": 17}
    snapshot = record.snapshot() | {
        "external_annotations": [annotation, None, {}, annotation | {"time_us": -1}, annotation | {"stage": "END"}],
        "torch_version": "2.9.0",
        "something": [1, 2],
    }
    trace = load(snapshot)
    labels = trace.context.labels
    assert {name: [label[row] for row in range(3)] for name, label in labels.items()} == {
        "user_metadata": ["loader", "", ""],
        "compile_context": ["", "0/1", ""],
        "category": ["activation", "", "activation"],
        "pool_id": ["", "(1, 7)", ""],
    }
    assert [(one.name, one.stage, one.device, one.time) for one in trace.context.annotations] == [
        ("Optimizer.step#Adam.step", "START", 0, 17),
        ("Optimizer.step#Adam.step", "END", 0, 17),
    ]
    assert trace.metadata["others"]["torch_version"] == "2.9.0"
    part = trace[1:]
    assert part.context.labels["pool_id"][1] == "(1, 7)"
    assert trace.without_context().context is None
    assert trace.without_context() == trace


@pytest.mark.parametrize("what", ["events", "blocks", "segments", "ignored events", "other events", "devices"])
def test_what_takes_two_bytes_in_the_file_cannot_fill_the_memory(load, what):
    event = {"action": "alloc", "addr": 1, "size": 1, "stream": 0}
    block = {"size": 512, "state": "active_allocated"}
    # pickle writes the second and every later occurrence of an object as a reference to the first.
    many = {
        "events": {"device_traces": [[event] * 3_000_000]},
        "ignored events": {"device_traces": [[event | {"action": "?"}] * 3_000_000]},
        "other events": {"device_traces": [[event | {"action": "segment_map"}] * 1_000_000]},
        "blocks": [{"address": 1, "total_size": 1, "blocks": [block] * 1_000_000}],
        "segments": [{"address": 1, "total_size": 1, "blocks": [block] * 10_000}] * 10_000,
        "devices": {"device_traces": [[event]] * 100_000},
    }[what]
    if what == "ignored events":  # they only count
        assert load(many).metadata["ignored_events"] == {"?": 3_000_000}
        return
    with pytest.raises(TraceError, match=r"takes more memory than is allowed|names more than 4096 devices"):
        load(many, memory_limit="96MiB")
