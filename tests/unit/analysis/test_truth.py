"""What a comparison and a fit say of snapshots that do not decide everything."""

import json

import pytest

import memlake
from helpers.torch_snapshots import MIB, Refused, TorchJob, late_job, scattered_job
from memlake.policies import CachingOptions, ExpandableOptions


def state_of(job, *events):
    snapshot = job.snapshot()
    snapshot["device_traces"] = [list(events)]
    job.snapshot = lambda: snapshot
    return job


def test_a_snapshot_of_an_oom_says_what_pytorch_did_and_what_the_others_do(file_of):
    path = file_of(scattered_job())
    comparison = memlake.compare(path)
    assert comparison.capacity == 1024 * MIB
    row = comparison.oom.row
    assert comparison[0].policy == "caching"
    assert (comparison[0].outcome, comparison[0].failed_event) == ("oom", row)
    assert comparison["expandable"].fits
    assert comparison["lake"].fits
    assert comparison.sentence.startswith(f"PyTorch ran out of memory at row {row}: it asked for 100 MiB, ")
    assert "use lake, or set PYTORCH_ALLOC_CONF=expandable_segments:True." in comparison.sentence
    assert comparison.sentence.endswith("what it would have needed after it is not in the file.")
    text = json.loads(json.dumps(comparison.to_json()))
    assert (text["history"], text["outcome"]) == ("complete", "ok")
    assert (text["oom"]["requested"], text["oom"]["device_free"]) == (100 * MIB, 64 * MIB)
    assert text["verification"]["sentence"] == "Verified under caching: 25 of 25 addresses equal."
    assert [entry["is_own"] for entry in text["policies"]] == [True, False, False, False, False]
    # PyTorch would have needed the request on top of what was live.
    assert comparison.peak_live == 960 * MIB
    assert memlake.fit(path)["caching"].min_capacity > 1024 * MIB


def test_a_job_that_needs_more_than_the_device_has_is_told_so_first(file_of):
    job = TorchJob(256)
    job.alloc(200)
    with pytest.raises(Refused):
        job.alloc(100)
    comparison = memlake.compare(file_of(job))
    assert comparison.outcome == "oom"
    assert "On a device of 256 MiB nothing can fit: 300 MiB would be live at once" in comparison.sentence


def test_expandable_segments_are_not_recommended_to_a_job_that_has_them(file_of):
    job = scattered_job()
    job.settings["expandable_segments"] = True
    comparison = memlake.compare(file_of(job), "990MiB")
    assert comparison[0].options == ExpandableOptions()
    assert "expandable_segments:True" not in comparison.sentence


def test_both_allocators_of_pytorch_get_the_settings_of_the_job(file_of):
    job = scattered_job()
    job.settings |= {"max_split_size": 64 * MIB, "garbage_collection_threshold": 0.5}
    comparison = memlake.compare(file_of(job), "2GiB")
    settings = {"max_split_size": 64 * MIB, "garbage_collection_threshold": 0.5}
    assert comparison[0].options == CachingOptions(**settings)
    assert comparison["expandable"].options == ExpandableOptions(**settings)
    assert [result.policy for result in comparison] == ["caching", "lake", "expandable", "stitch", "direct"]
    named = memlake.compare(file_of(job), "2GiB", ["lake", "caching"])
    assert [result.label for result in named] == ["lake", "caching"]


def test_what_the_job_ran_under_needs_no_other_setting_if_it_fits(file_of):
    job = scattered_job()
    comparison = memlake.compare(file_of(job), "1100MiB", ["caching", "expandable", "per_process_memory_fraction:0.5"])
    assert [result.fits for result in comparison] == [True, True, False]
    assert "caching is what the job ran under, so it needs no other setting" in comparison.sentence
    assert "PYTORCH_ALLOC_CONF" not in comparison.sentence


def test_a_state_is_never_said_to_fit(file_of):
    job = TorchJob(1024)
    job.free(job.alloc(600))
    job.alloc(100)
    job.alloc(50)
    path = file_of(state_of(job))
    comparison = memlake.compare(path, "80GiB")
    assert comparison.history.kind == "state"
    assert {result.outcome for result in comparison} == {"unknown"}
    assert comparison.fitting == ()
    assert "it cannot be known whether the job fits" in comparison.sentence
    assert "150 MiB were live" in comparison.sentence
    assert any("PyTorch held 600 MiB, of which 150 MiB were in use" in note for note in comparison.notes)
    assert comparison.to_json()["outcome"] == "unknown"
    found = memlake.fit(path)
    assert not found.is_decided
    assert {result.min_capacity for result in found} == {None}
    assert "No device below 150 MiB suffices" in found.sentence
    assert "the file has no history" in comparison.reproduction.sentence
    assert memlake.replay(path, "caching", "80GiB").sentence.startswith("It cannot be known whether")


def test_a_state_that_is_larger_than_the_device_does_not_fit(file_of):
    job = TorchJob(1024)
    job.alloc(600)
    comparison = memlake.compare(file_of(state_of(job)), "512MiB")
    assert {result.outcome for result in comparison} == {"oom"}
    assert "nothing can fit: 600 MiB are live" in comparison.sentence


def test_a_state_at_an_oom_gives_the_request_and_the_capacity(file_of):
    job = scattered_job()
    comparison = memlake.compare(file_of(state_of(job, job.events[-1])))
    assert (comparison.history.kind, comparison.capacity) == ("state", 1024 * MIB)
    assert comparison.sentence.startswith("PyTorch ran out of memory at row 12: it asked for 100 MiB, held 960 MiB")
    assert comparison.outcome == "unknown"


def test_a_late_record_decides_if_the_device_has_what_was_held_before(file_of):
    path = file_of(late_job())
    enough = memlake.compare(path, "500MiB")
    assert (enough.history.kind, enough.outcome) == ("warm", "ok")
    less = memlake.compare(path, "400MiB")
    assert {result.outcome for result in less} == {"unknown"}
    assert "PyTorch held 500 MiB when the record begins, more than the device has" in less.sentence
    assert memlake.compare(path, "100MiB").outcome == "oom"
    found = memlake.fit(path)
    assert found["lake"].min_capacity < 400 * MIB
    assert not found.is_decided
    assert "lake at least 140 MiB" in repr(found)
    assert found.doubt == found.history.sentence
    assert "140 MiB are live at most in the recorded part" in found.sentence
    assert "may need up to that" in found.sentence


def test_a_cut_record_does_not_tell_how_small_the_device_may_be(file_of):
    job = late_job()
    job.settings["trace_alloc_overflowed"] = True
    found = memlake.fit(file_of(job))
    assert (found.history.kind, found.is_decided) == ("cut", False)
    assert memlake.compare(file_of(job), "400MiB").outcome == "unknown"
    # The peak is in the rest, and PyTorch held less before.
    job = late_job(60)
    job.settings["trace_alloc_overflowed"] = True
    assert memlake.fit(file_of(job)).is_decided
    assert memlake.compare(file_of(job), "400MiB").outcome == "ok"


def test_private_pools_hold_back_memory_that_a_replay_would_use(file_of):
    job = TorchJob(512)
    job.free(job.alloc(200, pool=(0, 1)))
    job.alloc(250)
    with pytest.raises(Refused):
        job.alloc(100)
    path = file_of(job)
    died = memlake.compare(path)
    assert {result.outcome for result in died} == {"unknown"}
    assert "PyTorch ran out of memory on such a device, and the replay" in died.sentence
    assert "Private pools held back 200 MiB of free memory" in died.sentence
    larger = memlake.compare(path, "540MiB")["caching"]
    assert larger.outcome == "unknown"
    assert "memlake does not model them" in larger.sentence
    assert "With that on top, the 450 MiB that caching holds would be 650 MiB." in larger.sentence
    for policy in ("caching", "lake"):
        found = memlake.fit(path, policy)
        assert f"{policy} needs at least a device of" in found.sentence
        assert "PyTorch ran out of memory on such a device" in found.doubt or policy == "lake"
        assert (found.is_decided, found.outcome, found[0].result.outcome) == (False, "unknown", "unknown")
        assert memlake.compare(path, found[0].min_capacity, policy).outcome == "unknown"
    # What needs no replay is not affected.
    shown = memlake.overview(path)
    assert (shown.shortage.kind, shown.at_end.in_private_pools) == ("private pool", 200 * MIB)
    assert "; 200 MiB of that are free, and other requests cannot have them." in shown.notes[0]
    assert memlake.compare(path, "700MiB")["caching"].outcome == "ok"


def test_a_request_that_pytorch_refused_and_the_replay_serves_makes_every_policy_doubtful(file_of):
    job = TorchJob(512)
    job.free(job.alloc(250))
    job.alloc(100)
    job.events.append(job.events[-1] | {"action": "oom", "addr": 0, "size": 100 * MIB, "device_free": 0})
    path = file_of(job)
    assert memlake.Trace.load(path).oom.capacity == 250 * MIB
    for policy in ("caching", "lake"):  # also if what the job ran under is not asked for
        found = memlake.fit(path, policy)
        assert found.outcome == "unknown"
        assert "memory was taken that the replay does not model" in found.sentence
        compared = memlake.compare(path, policies=policy)
        assert compared.outcome == "unknown"
        assert "memory was taken that the replay does not model" in compared.sentence


def test_a_limit_that_is_not_recorded_is_asked_for(file_of):
    job = scattered_job()
    job.events[-1]["device_free"] = 3000 * MIB
    with pytest.raises(memlake.ConfigError, match="a limit of the process"):
        memlake.compare(file_of(job))
    job.settings["PYTORCH_CUDA_ALLOC_CONF"] = "per_process_memory_fraction:0.25"
    comparison = memlake.compare(file_of(job))
    assert (comparison.capacity, comparison[0].limit) == (3960 * MIB, 990 * MIB)
    assert comparison[0].failed_event == comparison.oom.row


def test_a_replay_that_does_not_reproduce_the_file_makes_the_figures_estimates(file_of):
    job = scattered_job()
    moved = next(event for event in job.events if event["action"] == "alloc" and event["size"] == 40 * MIB)
    job.events.remove(moved)
    comparison = memlake.compare(file_of(job), "1GiB")
    assert not comparison.reproduction.is_exact
    assert comparison.reproduction.sentence.startswith("Not verified under caching: ")
    assert comparison.reproduction.sentence.endswith("the figures are estimates.")


def test_a_trace_that_is_no_snapshot_has_nothing_to_verify(moe):
    comparison = memlake.compare(moe, "80GiB", "caching")
    assert (comparison.reproduction, comparison.notes, comparison.oom) == (None, (), None)
    assert comparison.to_json()["verification"] is None
    assert comparison.to_json()["history"] == "complete"


def test_a_limit_below_the_live_peak_is_named(moe):
    sentence = memlake.compare(moe, "80GiB", limit="4GiB").sentence
    assert sentence.startswith(
        "On a device of 80 GiB with a limit of 4 GiB nothing can fit: 53.58 GiB are live at once"
    )
    assert sentence.endswith("raise the limit to at least 53.58 GiB.")
    both = memlake.compare(moe, "40GiB", limit="4GiB").sentence
    assert both.endswith("raise the limit to at least 53.58 GiB and use a larger device.")
