"""What an overview says of complete, warm, cut and state-only files, and its verdicts of shortages."""

import json
from functools import partial

import pytest

from helpers.torch_snapshots import MIB, Refused, TorchJob, late_job, scattered_job
from memlake import ConfigError, Trace, replay
from memlake.analysis import advise, compare, overview
from memlake.trace import Op, load_example


def refused(job, mib, pool=(0, 0)):
    with pytest.raises(Refused):
        job.alloc(mib, pool)
    return job


def test_the_parts_of_the_held_memory_add_up(file_of):
    job = TorchJob()
    blocks = [job.alloc(100), job.alloc(50), job.alloc(30.5, (0, 7)), job.alloc(20, (0, 7))]
    job.free(job.alloc(60))
    for block in blocks[1:3]:
        job.free(block)
    job.alloc(9.5)
    found = overview(file_of(job))
    end = found.at_end
    assert (end.held, end.allocated, end.pending) == (job.held, 129.5 * MIB, 0)
    # 9.5 MiB were cut from the free 50 MiB; the segment of 60 MiB is wholly free.
    assert (end.external, end.cached, end.in_private_pools) == (40.5 * MIB, 60 * MIB, 32 * MIB)
    assert end.requested + end.rounding + end.pending + end.external + end.cached + end.in_private_pools == end.held
    assert end.largest_free == 60 * MIB
    assert found.private_pools == {"0,7": 52 * MIB}
    assert found.held_peak == job.held


def test_rounding_is_what_the_program_did_not_ask_for(file_of):
    job = TorchJob()
    job.alloc(11.5)
    end = overview(file_of(job)).at_end
    assert (end.held, end.requested, end.rounding) == (12 * MIB, 11.5 * MIB, 0.5 * MIB)


def test_rounding_is_unknown_if_the_file_lacks_the_requested_sizes(file_of):
    job = TorchJob(torch=(2, 0))
    job.alloc(12)
    snapshot = job.snapshot()
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            del block["requested_size"]
    job.snapshot = lambda: snapshot["segments"]
    end = overview(file_of(job)).at_end
    assert (end.allocated, end.requested, end.rounding) == (12 * MIB, None, None)


def test_segments_that_their_blocks_do_not_fill_are_a_contradiction(file_of):
    job = TorchJob()
    job.alloc(30)
    snapshot = job.snapshot()
    snapshot["segments"][0]["blocks"][0]["size"] = 20 * MIB
    job.snapshot = lambda: snapshot
    end = overview(file_of(job)).at_end
    assert (end.held, end.allocated, end.not_in_blocks) == (30 * MIB, 20 * MIB, 10 * MIB)


def test_pending_blocks_are_counted_apart(file_of):
    job = TorchJob()
    address = job.alloc(30)
    job.alloc(20)
    snapshot = job.snapshot()
    next(b for s in snapshot["segments"] for b in s["blocks"] if b["address"] == address)["state"] = (
        "active_pending_free"
    )
    job.snapshot = lambda: snapshot
    end = overview(file_of(job)).at_end
    assert (end.pending, end.allocated) == (30 * MIB, 20 * MIB)


def test_pages_of_an_expandable_segment_that_are_free_are_cached(file_of):
    job = TorchJob()
    block = job.alloc(100)
    job.free(block)
    job.alloc(30)
    snapshot = job.snapshot()
    for segment in snapshot["segments"]:
        segment["is_expandable"] = True
    job.snapshot = lambda: snapshot
    end = overview(file_of(job)).at_end
    # The free 70 MiB begin within the page from 20 to 40 MiB; the pages from 40 to 100 MiB are wholly free.
    assert (end.external, end.cached) == (10 * MIB, 60 * MIB)


def test_a_state_has_no_peaks(file_of):
    job = TorchJob()
    job.free(job.alloc(500))
    job.alloc(40)
    job.events.clear()
    found = overview(file_of(job))
    assert (found.history.kind, found.held_peak, found.peak.scope) == ("state", None, "moment")
    assert (found.at_end.held, found.at_end.allocated) == (500 * MIB, 40 * MIB)
    assert not found.reproduction.is_exact


def test_the_peaks_of_a_late_recording_are_those_of_the_recorded_part(file_of):
    job = late_job()
    found = overview(file_of(job))
    assert (found.history.kind, found.peak.scope) == ("warm", "recorded part")
    assert (found.held_peak, found.peak.nbytes) == (500 * MIB, 140 * MIB)


def test_the_held_peak_includes_segments_that_were_released(file_of):
    job = TorchJob(256)
    job.free(job.alloc(200))
    job.alloc(240)
    found = overview(file_of(job))
    assert (found.held_peak, found.at_end.held) == (240 * MIB, 240 * MIB)
    job = TorchJob(256)
    job.free(job.alloc(200))
    refused(job, 300)
    found = overview(file_of(job))
    assert (found.held_peak, found.at_end.held) == (200 * MIB, 0)


def test_a_held_peak_is_not_known_if_events_and_segments_contradict_each_other(file_of):
    job = TorchJob()
    job.alloc(100)
    job.alloc(50)
    snapshot = job.snapshot()
    del snapshot["segments"][0]
    job.snapshot = lambda: snapshot
    assert overview(file_of(job)).held_peak is None


def test_enough_but_scattered(file_of):
    found = overview(file_of(scattered_job()))
    verdict = found.shortage
    assert (verdict.kind, verdict.free, verdict.largest_free) == ("scattered", 480 * MIB, 40 * MIB)
    assert "in pieces of at most 40 MiB" in verdict.sentence
    assert "Verdict: enough but scattered" in verdict.sentence


def test_no_memory_at_all_and_memory_outside_pytorch(file_of):
    job = TorchJob(4096)
    job.alloc(4000)
    path = file_of(refused(job, 500))
    assert overview(path).shortage.kind == "no memory"
    assert overview(path).shortage.outside is None
    # 1 GiB of 5 GiB is outside. The context has 512 MiB of them; the rest suffices for the missing 404 MiB.
    verdict = overview(path, capacity="5GiB").shortage
    assert (verdict.kind, verdict.outside, verdict.reserve) == ("outside", 1024 * MIB, 512 * MIB)
    assert "1 GiB of the device were outside PyTorch, of which 512 MiB are counted for the CUDA" in verdict.sentence
    assert overview(path, capacity="4.8GiB").shortage.kind == "no memory"
    assert overview(path, capacity="5GiB", reserve="1GiB").shortage.kind == "no memory"
    assert overview(path, capacity="4.5GiB", reserve=0).shortage.kind == "outside"
    # A capacity below what PyTorch had is none of this device.
    assert overview(path, capacity="2GiB").shortage.outside is None


def test_stuck_in_a_private_pool(file_of):
    job = TorchJob(1024)
    job.free(job.alloc(600, (0, 3)))
    job.alloc(300)
    verdict = overview(file_of(refused(job, 200))).shortage
    assert (verdict.kind, verdict.in_other_pools, verdict.free) == ("private pool", 600 * MIB, 0)
    assert "600 MiB free in other memory pools" in verdict.sentence


def test_without_addresses_no_verdict_depends_on_private_pools(file_of):
    job = TorchJob(1024)
    job.free(job.alloc(600, (0, 3)))
    job.alloc(300)
    trace = Trace.load(file_of(refused(job, 200)))
    bare = Trace(trace.op, trace.id, trace.bytes, trace.stream, metadata=trace.metadata)
    verdict = overview(bare).shortage
    assert (verdict.kind, verdict.largest_free, verdict.free) == ("unknown", None, 600 * MIB)
    # Without private pools the same figures decide it.
    bare = Trace(trace.op, trace.id, trace.bytes, metadata=trace.metadata | {"free_in_private_pools": 0})
    assert overview(bare).shortage.kind == "scattered"


def test_a_request_of_a_private_pool_may_use_its_own_pool(file_of):
    job = TorchJob(1024)
    first = job.alloc(900, (0, 3))
    job.free(first)
    for _ in range(3):
        job.alloc(300 - 100, (0, 3))
    verdict = overview(file_of(refused(job, 320, (0, 3)))).shortage
    assert (verdict.kind, verdict.free, verdict.in_other_pools) == ("scattered", 300 * MIB, 0)


def test_waiting_for_a_stream(file_of):
    job = TorchJob(1024)
    waiting = job.alloc(600)
    job.alloc(300)
    job.free(job.alloc(10))  # a free that is completed: the file records completions
    job.events.append(job.events[1] | {"action": "free_requested", "addr": waiting, "size": 600 * MIB})
    verdict = overview(file_of(refused(job, 200))).shortage
    assert (verdict.kind, verdict.pending, verdict.free) == ("pending", 600 * MIB, 0)
    assert "600 MiB waiting for streams" in verdict.sentence


def test_a_limit_refused_it(file_of):
    job = refused(TorchJob(64), 100)
    job.events[-1]["device_free"] = 2**30
    job.alloc(10)
    verdict = overview(file_of(job)).shortage
    assert verdict.kind == "limit"
    assert verdict.sentence.endswith("The job went on after it.")


def test_the_verdict_is_unknown_without_the_free_memory_of_the_device(file_of):
    path = file_of(scattered_job())
    trace = Trace.load(path)
    metadata = trace.metadata
    metadata["shortages"][-1] |= {"device_free": None, "requested": 2**40}
    other = Trace(trace.op, trace.id, trace.bytes, trace.stream, metadata=metadata)
    assert overview(other).shortage.kind == "unknown"


def test_a_trace_that_is_no_snapshot_has_only_what_it_knows():
    found = overview(load_example("train_opt-13b_lora_offload"))
    assert (found.at_end, found.held_peak, found.shortage, found.reproduction) == (None, None, None, None)
    assert found.steps_known_by == "the rows of the trace name them"
    assert max(step.peak_live for step in found.steps) == found.peak.nbytes


def test_steps_end_where_the_annotations_of_optimizers_end(file_of):
    job = TorchJob()
    snapshot_of = job.snapshot
    for size in (10, 20, 30):
        job.free(job.alloc(size))
    times = [event["time_us"] for event in job.events if event["action"] == "free_completed"]
    notes = [
        {"name": "Optimizer.step#Adam.step", "stage": stage, "device": 0, "time_us": time}
        for time in times[:2]
        for stage in ("START", "END")
    ]
    job.snapshot = lambda: snapshot_of() | {"external_annotations": notes}
    found = overview(file_of(job))
    assert [step.peak_live // MIB for step in found.steps] == [10, 20, 30]
    assert [step.end_live for step in found.steps] == [0, 0, 0]
    assert "Optimizer.step" in found.steps_known_by


def test_no_steps_are_guessed(file_of):
    job = TorchJob()
    for _ in range(3):
        job.free(job.alloc(10))
    assert overview(file_of(job)).steps == ()


def test_the_json_is_json(file_of):
    text = json.loads(json.dumps(overview(file_of(scattered_job())).to_json(), allow_nan=False))
    assert text["oom"]["verdict"] == "scattered"
    assert text["verification"]["is_exact"] is True
    assert sum(site["bytes"] for site in text["peak"]["sites"]) == text["peak"]["bytes"]
    assert (text["policy"], text["options"]) == ("caching", "")


def test_a_capacity_may_be_the_name_of_a_gpu(file_of):
    job = TorchJob(4096)
    job.alloc(4000)
    found = overview(file_of(refused(job, 500)), capacity="RTX 3070")
    assert (found.shortage.kind, found.capacity) == ("outside", int(7.78 * 2**30))
    assert found.origin == "3070 has 7.78 GiB (akshitac8/OW-DETR#46)."
    assert "\ncapacity  3070 has 7.78 GiB (akshitac8/OW-DETR#46)\n" in str(found)


def test_a_reserve_without_a_device_is_refused():
    with pytest.raises(ConfigError, match="reserve is a part of the memory of the device"):
        overview(Trace([Op.ALLOCATE], [0], [5]), reserve="1GiB")


@pytest.mark.parametrize("name", ["a100-80g", "h10", "4091"])
def test_a_gpu_that_is_not_known_gets_a_suggestion(name):
    given = Trace([Op.ALLOCATE], [0], [5])
    for ask in (overview, compare, advise, partial(replay, policy="caching")):
        with pytest.raises(ConfigError) as refusal:
            ask(given, capacity=name)
        if name == "4091":
            assert "between 2 MiB and 16 TiB" in str(refusal.value)
        else:
            assert "did you mean" in str(refusal.value)


def test_a_capacity_that_is_no_size_is_refused():
    with pytest.raises(ConfigError, match="capacity"):
        overview(Trace([Op.ALLOCATE], [0], [5]), capacity="much")
