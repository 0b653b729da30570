"""What of one snapshot is still live in a later snapshot of the same process."""

import copy
import random

import pytest

import memlake
from helpers.torch_snapshots import MIB, TorchJob
from memlake import Trace

LEAK, KEPT, BUSY = "/job/net.py:5 cache", "/job/net.py:1 init", "/job/net.py:9 forward"


@pytest.fixture
def load(tmp_path):
    """Loads the snapshot of a job at this moment."""
    return lambda job, **options: Trace.load(job.save(tmp_path / "snapshot.pickle", **options))


def a_while(job, leaked):
    """A part of a job: twenty short-lived allocations, and one that is never freed."""
    for _ in range(20):
        job.free(job.alloc_at(BUSY, 30))
    leaked.append(job.alloc_at(LEAK, 10))


def twice(load, **options):
    """Two snapshots of a process, the second one later; and its job."""
    job, leaked = TorchJob(4096), []
    job.alloc_at(KEPT, 50)
    a_while(job, leaked)
    a_while(job, leaked)
    first = load(job)
    job.free(leaked[0])
    a_while(job, leaked)
    return first, load(job, **options), job


def test_what_is_still_live_in_a_later_snapshot_of_the_process_is_listed(load):
    first, second, _ = twice(load)
    found = memlake.diff(first, second).still_live
    assert found.is_known
    assert (found.nbytes, found.count) == (60 * MIB, 2)
    assert (found.bytes_freed, found.count_freed) == (10 * MIB, 1)
    assert [(row.site.text, row.nbytes // MIB) for row in found.rows] == [("net.py:1 init", 50), ("net.py:5 cache", 10)]
    assert "A and B are of one process" in found.sentence


def test_a_ring_that_lost_the_beginning_still_knows_it(load):
    first, second, job = twice(load, max_entries=150)
    assert second.history.kind == "cut"
    assert len(job.events) > 150
    found = memlake.diff(first, second).still_live
    assert found.is_known
    assert (found.nbytes, found.bytes_freed) == (60 * MIB, 10 * MIB)


def test_a_history_that_begins_after_the_first_snapshot_does_not_know_it(load):
    first, second, _ = twice(load, max_entries=40)
    found = memlake.diff(first, second).still_live
    assert not found.is_known
    assert "the history of B begins after the end of A" in found.sentence
    assert found.to_json()["bytes"] is None


def shifted(job, by_us, jitter_us=0):
    other = copy.deepcopy(job)
    chance = random.Random(1)
    for event in other.events:
        event["time_us"] += by_us + (chance.randint(-jitter_us, jitter_us) if jitter_us else 0)
    return other


def test_a_second_run_has_the_same_addresses_and_is_no_later_snapshot(load):
    first, _, job = twice(load)
    assert not memlake.diff(first, load(shifted(job, 60_000_000))).still_live.is_known


def test_another_rank_at_almost_the_same_times_is_another_process(load):
    first, _, job = twice(load)
    assert not memlake.diff(first, load(shifted(job, 20, jitter_us=30))).still_live.is_known


def test_a_clock_that_was_fitted_anew_is_still_the_same_process(load):
    first, _, job = twice(load)
    other = copy.deepcopy(job)
    start = other.events[0]["time_us"]
    for event in other.events:
        event["time_us"] = start + 3 + round((event["time_us"] - start) * 1.01)
    assert memlake.diff(first, load(other)).still_live.is_known


def test_the_later_snapshot_first_is_said(load):
    first, second, _ = twice(load)
    found = memlake.diff(second, first).still_live
    assert not found.is_known
    assert "B was taken before A; name the earlier snapshot first" in found.sentence


@pytest.mark.parametrize(("torch", "what"), [((2, 1), "has no times"), ((2, 13), "has no history")])
def test_what_the_files_lack_is_named(load, torch, what):
    job = TorchJob(4096, torch)
    for _ in range(20):
        job.alloc_at(BUSY, 10)
    first = load(job)
    if torch == (2, 13):
        job.events.clear()
    else:
        job.alloc_at(BUSY, 10)
    assert what in memlake.diff(first, load(job)).still_live.sentence


def test_too_few_allocations_prove_nothing(load):
    job = TorchJob(4096)
    job.alloc_at(KEPT, 10)
    job.free(job.alloc_at(BUSY, 20))
    first = load(job)
    job.alloc_at(BUSY, 30)
    assert not memlake.diff(first, load(job)).still_live.is_known
