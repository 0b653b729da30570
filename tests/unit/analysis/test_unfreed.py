"""What a job allocated and did not free."""

import pytest

import memlake
from helpers.torch_snapshots import MIB, TorchJob, late_job
from memlake import Trace
from memlake.trace import Op


def test_what_was_not_freed_is_listed_by_call_site_with_its_ages(tmp_path):
    job = TorchJob()
    job.alloc_at("/job/net.py:1 init", 40)
    for _ in range(5):
        job.free(job.alloc_at("/job/net.py:9 forward", 30))
        job.alloc_at("/job/net.py:5 cache", 10)
    trace = Trace.load(job.save(tmp_path / "snapshot.pickle"))
    found = memlake.never_freed(trace)
    assert (found.nbytes, found.count, found.bytes_before) == (90 * MIB, 6, 0)
    cache, init = found.rows
    assert (cache.site.text, cache.nbytes, cache.count) == ("net.py:5 cache", 50 * MIB, 5)
    assert (cache.oldest_rows, cache.newest_rows) == (12, 0)
    assert (init.oldest_rows, init.newest_rows) == (len(trace) - 1, len(trace) - 1)
    times = trace.time
    assert init.oldest_us == times[-1] - times[0]
    assert cache.newest_us == 0
    assert cache.num_steps is None
    assert repr(found) == "<memlake.NeverFreed: 90 MiB in 6 allocations>"
    assert "A leak has allocations of many ages" in str(found).replace("\n", " ")


def test_what_was_allocated_before_the_recording_is_counted_apart(tmp_path):
    job = late_job()
    job.alloc(20)
    found = memlake.never_freed(job.save(tmp_path / "snapshot.pickle"))
    assert (found.nbytes, found.count, found.bytes_before) == (20 * MIB, 1, 40 * MIB)
    assert "40 MiB more are live from before the recording" in found.sentence


def test_a_state_does_not_tell(tmp_path):
    job = TorchJob()
    job.alloc(20)
    job.events.clear()
    found = memlake.never_freed(job.save(tmp_path / "snapshot.pickle"))
    assert not found.is_known
    assert found.to_json()["bytes"] is None
    assert "does not tell" in str(found)


def test_the_steps_of_the_allocations_are_counted():
    op = [Op.ALLOCATE, *[Op.STEP, Op.ALLOCATE, Op.ALLOCATE, Op.FREE] * 3]
    ids = [0, 0, 1, 2, 1, 1, 3, 4, 3, 2, 5, 6, 5]
    trace = Trace(op, ids, [512, *[0, 4096, 1024, 0] * 3], tag=[1, *[0, 2, 3, 0] * 3], tags=["", "init", "x", "leak"])
    found = memlake.never_freed(trace)
    assert found.num_steps == 3
    assert {row.site.text: (row.count, row.num_steps) for row in found} == {"leak": (3, 3), "init": (1, 0)}
    assert {row.oldest_us for row in found} == {None}
    assert "oldest, rows" in str(found)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_trace_in_which_all_is_freed_has_no_rows(rows):
    op, ids, sizes = [Op.ALLOCATE, Op.FREE] * rows, [0, 0] * rows, [512, 0] * rows
    found = memlake.never_freed(Trace(op, ids, sizes))
    assert (len(found), found.sentence) == (0, "All that was allocated in the recorded part was freed.")
