import numpy as np
import pytest

from helpers.torch_snapshots import MIB, Refused, TorchJob, scattered_job
from memlake import Trace
from memlake.trace import History, Op, verify


@pytest.fixture
def loaded(load):
    """Loads the snapshot of a job."""
    return lambda job, **options: load(job.snapshot(**options), "snapshot.pickle")


def busy_job(**options):
    """Weights that stay, and 40 steps that allocate and free."""
    job = TorchJob(**options)
    job.alloc(200)
    for step in range(40):
        block = job.alloc(100)
        other = job.alloc(30 + step % 3)
        job.free(block)
        job.free(other)
    return job


def test_a_record_from_the_first_allocation_on_is_complete(loaded):
    trace = loaded(busy_job())
    assert trace.history == History()
    assert trace.history.sentence == ""
    assert verify(trace).is_exact
    assert verify(trace).sentence == "Verified under caching: 81 of 81 addresses equal."


def test_a_record_that_begins_with_memory_in_use_is_warm(loaded):
    job = TorchJob()
    job.is_recording = False
    weights, free = job.alloc(200), job.alloc(300)
    job.free(free)
    job.is_recording = True
    for _ in range(7):
        job.free(job.alloc(100))
    history = loaded(job).history
    assert (history.kind, history.held_before, history.live_before) == ("warm", 500 * MIB, 200 * MIB)
    assert history.largest_free == 300 * MIB
    assert "begins with memory in use" in history.sentence
    assert "500 MiB" in history.sentence
    assert weights in loaded(job).recorded.addresses


@pytest.mark.parametrize("flag", [True, [True], {"0": True}])
def test_the_flag_of_newer_versions_says_that_the_ring_overflowed(loaded, flag):
    job = busy_job()
    job.settings["trace_alloc_overflowed"] = flag
    history = loaded(job).history
    assert history.kind == "cut"
    assert "PyTorch says that its ring" in history.reason


@pytest.mark.parametrize("flag", [False, [False], {"0": False}])
def test_the_flag_also_says_that_the_recording_began_late(loaded, flag):
    job = busy_job()
    job.settings["trace_alloc_overflowed"] = flag
    # The evidence below would speak for a full ring.
    history = loaded(job, max_entries=100).history
    assert (history.kind, history.reason) == ("warm", "the recording began late")


@pytest.mark.parametrize("max_entries", [93, 100, 128, 200])
def test_a_block_with_a_stack_whose_event_is_missing_shows_a_full_ring(loaded, max_entries):
    history = loaded(busy_job(), max_entries=max_entries).history
    assert (history.kind, history.live_before >= 200 * MIB) == ("cut", True)
    assert "events are missing" in history.reason


def test_a_round_number_of_events_is_taken_for_a_full_ring(loaded):
    job = busy_job(stacks=False)
    assert "exactly 100 events" in loaded(job, max_entries=100).history.reason
    assert "exactly 128 events" in loaded(job, max_entries=128).history.reason
    first = next(n for n in range(101, 120) if job.events[-n]["action"] == "alloc")
    assert loaded(job, max_entries=first).history.kind == "warm"


def test_a_record_that_begins_in_the_middle_of_a_free_shows_a_full_ring(loaded):
    job = busy_job(stacks=False)
    inside = next(n for n in range(101, 120) if job.events[-n]["action"] == "free_completed")
    history = loaded(job, max_entries=inside).history
    assert (history.kind, "events are missing" in history.reason) == ("cut", True)


@pytest.mark.parametrize("max_entries", [0, 1])
def test_a_snapshot_without_events_is_a_state(loaded, max_entries):
    job = busy_job()
    job.free(job.alloc(500))
    snapshot = job.snapshot()
    snapshot["device_traces"] = [job.events[len(job.events) - max_entries :]]
    job.snapshot = lambda: snapshot
    history = loaded(job).history
    assert (history.kind, history.held_before, history.live_before) == ("state", job.held, 200 * MIB)
    assert history.largest_free == 500 * MIB
    assert not history.can_tell_that_it_fits(2**50)
    assert "The file has no history" in history.sentence


def test_a_history_without_its_beginning_decides_from_what_was_held_then_on():
    for kind in ("warm", "cut"):
        history = History(kind=kind, held_before=500)
        assert history.can_tell_that_it_fits(500)
        assert not history.can_tell_that_it_fits(499)
    assert History().can_tell_that_it_fits(0)


def test_the_history_is_saved_and_follows_a_part(loaded, tmp_path):
    job = scattered_job()
    trace = loaded(job)
    trace.save(tmp_path / "t.npz")
    again = Trace.load(tmp_path / "t.npz")
    assert (again.history, again.shortages, again.settings) == (trace.history, trace.shortages, trace.settings)
    part = trace[10:]
    assert part.history.kind == "warm"
    assert part.num_carried == 8
    assert part[part.oom.row].bytes == 100 * MIB
    assert trace[:5].oom is None


@pytest.mark.parametrize(
    "metadata",
    [
        {"history": "complete"},
        {"history": {"kind": "no such"}},
        {"history": {"kind": ["cut"]}},
        {"shortages": 5},
        {"shortages": [{"row": 1}]},
        {"shortages": [None]},
        {"num_carried": "x"},
        {"torch": [1, 2]},
        {"source": "PyTorch snapshot", "allocator_settings": 17, "torch": ["2.x", None]},
    ],
)
def test_metadata_that_means_nothing_is_ignored(metadata):
    trace = Trace([0], [0], [512], metadata=metadata)
    assert trace.history == History()
    assert (trace.shortages, trace.oom, trace.num_carried) == ((), None, 0)
    assert (trace.settings.torch.first, trace.settings.torch.last) == (None, None)


def test_the_refused_request_is_a_row_that_the_next_row_frees(loaded):
    job = scattered_job()
    trace = loaded(job)
    shortage = trace.oom
    assert trace.shortages == (shortage,)
    assert trace[shortage.row].op == Op.ALLOCATE
    assert trace[shortage.row].bytes == shortage.requested == 100 * MIB
    assert trace[shortage.row + 1].op == Op.FREE
    assert (shortage.held, shortage.live, shortage.device_free) == (960 * MIB, 480 * MIB, 64 * MIB)
    assert (shortage.capacity, shortage.is_last, shortage.is_scattered) == (1024 * MIB, True, True)
    assert not shortage.is_limited
    assert "asked for 100 MiB, held 960 MiB of which 480 MiB were in use, and the driver had 64 MiB free" in (
        shortage.sentence
    )
    assert verify(trace).is_exact
    assert np.count_nonzero(trace.op == Op.ALLOCATE) == 26


def test_a_job_that_goes_on_after_a_refusal_has_later_requests(loaded):
    job = scattered_job()
    job.alloc(20)
    with pytest.raises(Refused):
        job.alloc(200)
    trace = loaded(job)
    assert [one.requested // MIB for one in trace.shortages] == [100, 200]
    assert [one.is_last for one in trace.shortages] == [False, True]
    assert verify(trace).is_exact


def test_a_request_that_the_driver_could_have_served_was_refused_by_a_limit(loaded):
    job = scattered_job()
    job.events[-1]["device_free"] = 500 * MIB
    assert loaded(job).oom.is_limited
    assert "a limit of the process" in loaded(job).oom.sentence
