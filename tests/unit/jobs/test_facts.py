"""What differs between files of different jobs."""

import pytest

from helpers.torch_snapshots import FRAMES, TorchJob, scattered_job
from memlake import Trace
from memlake.jobs.facts import differences_of, facts_of


@pytest.fixture
def facts(tmp_path):
    """The facts of the snapshot of a job."""

    def read(job):
        return facts_of(Trace.load(job.save(tmp_path / "snapshot.pickle")))

    return read


def differences(*every):
    return differences_of({str(number): facts for number, facts in enumerate(every)})


def test_ranks_of_one_job_do_not_differ(facts):
    other = TorchJob(1024)
    other.alloc(40)
    assert differences(facts(scattered_job()), facts(other)) == ()


def test_versions_of_torch_differ_if_none_can_have_written_both(facts):
    (what,) = differences(facts(scattered_job(torch=(2, 13))), facts(scattered_job(torch=(2, 5))))
    assert what == "versions of torch (2.12 or later: 0; 2.3 to 2.5: 1)"
    # A file without events is of a range of versions, which overlaps.
    state = scattered_job()
    state.events.clear()
    assert differences(facts(scattered_job()), facts(state)) == ()


def test_a_rank_that_ran_under_memlake_differs(facts):
    other = scattered_job()
    other.settings["PYTORCH_CUDA_ALLOC_CONF"] = "memlake:lake;limit:90%"
    assert facts(other).ran_under == "memlake (lake,limit:90%)"
    (what,) = differences(facts(scattered_job()), facts(other))
    assert what == "settings (caching: 0; memlake (lake,limit:90%): 1)"
    assert differences(facts(other), facts(other)) == ()


def test_settings_differ(facts):
    other = scattered_job()
    other.settings["max_split_size"] = 64 * 2**20
    (what,) = differences(facts(scattered_job()), facts(other))
    assert what == "settings (caching: 0; caching (max_split_size_mb:64): 1)"


def test_devices_differ_if_one_is_much_smaller(facts):
    def died_on(mib):
        job = TorchJob(mib)
        job.alloc(mib - 100)
        try:
            job.alloc(200)
        except Exception:
            return job
        raise AssertionError("the job should have died")

    assert differences(facts(died_on(1000)), facts(died_on(900))) == ()
    (what,) = differences(facts(died_on(1000)), facts(died_on(500)))
    assert what == "sizes of the device (1000 MiB: 0; 500 MiB: 1)"


def test_programs_differ_if_they_share_no_file(facts, monkeypatch):
    first = facts(scattered_job())
    monkeypatch.setitem(FRAMES[0], "filename", "/elsewhere/train.py")
    assert differences(first, facts(scattered_job())) == ()
    monkeypatch.setitem(FRAMES[0], "filename", "/home/someone/serve.py")
    (what,) = differences(first, first, facts(scattered_job()))
    assert what == "programs (train.py: 0, 1; serve.py: 2)"
    assert differences(first, facts(scattered_job(stacks=False))) == ()


def test_formats_differ(facts, tmp_path):
    path = tmp_path / "own.txt"
    Trace([0, 1], [0, 0], [512, 0]).save(path)
    assert any(what.startswith("formats") for what in differences(facts(scattered_job()), facts_of(Trace.load(path))))
