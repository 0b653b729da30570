import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import memlake
from helpers.torch_snapshots import TorchJob
from memlake.policies import CachingOptions, ExpandableOptions, StitchOptions
from memlake.trace import Op

MIB = 2**20
GIB = 2**30
KEYS = {
    "policy",
    "outcome",
    "peak_live",
    "peak_requested",
    "peak_allocated",
    "peak_held",
    "utilization",
    "failed_event",
    "num_ooms",
    "num_alloc_retries",
    "host_waits",
    "driver_calls",
    "modelled_driver_ms",
    "ns_per_event",
    "approximate",
}


@pytest.mark.parametrize("policy", ["caching", "expandable", "stitch", "direct"])
def test_a_trace_fits_where_there_is_room(moe, policy):
    result = memlake.replay(moe, policy, "80GiB")
    assert result.fits
    assert result.outcome == "ok"
    assert (result.policy, result.capacity, result.rows) == (policy, 80 * GIB, len(moe))
    assert result.failure is None
    assert result.failed_event is None
    assert moe.peak_live == result.peak_live <= result.peak_held <= 80 * GIB
    assert result.utilization == result.peak_live / result.peak_held
    assert result.peak_requested <= result.peak_allocated <= result.peak_held
    assert result.num_ooms == 0
    assert result.ns_per_event > 0
    assert not result.approximate


def test_stitching_serves_what_no_free_block_could(offload, scattered):
    assert not memlake.replay(scattered, "caching", "100MiB").fits
    stitched = memlake.replay(scattered, StitchOptions(frag_limit="32MiB"), "100MiB")
    assert stitched.fits
    assert stitched.counters["stitches"] >= 1
    assert stitched.to_json()["counters"] == stitched.counters
    result = memlake.replay(offload, "stitch", int(1.02 * offload.peak_live))
    assert result.fits
    hits, stitches = result.counters["stitch_hits"], result.counters["stitches"]
    assert result.counters["stitch_hit_rate"] == hits / (hits + stitches)
    assert 0 < result.counters["stitch_bytes_saved"] <= result.peak_held
    without = memlake.replay(offload, StitchOptions(max_views=0), int(1.5 * offload.peak_live))
    assert without.counters["stitches"] == 0
    assert memlake.replay(scattered, "caching", "1GiB").counters == {}


def test_a_tight_device_costs_retries_and_driver_time(offload):
    result = memlake.replay(offload, "expandable", int(1.02 * offload.peak_live))
    assert result.fits
    assert result.num_alloc_retries >= 1
    assert result.driver_calls["cuMemCreate"] >= result.driver_calls["cuMemRelease"]
    assert result.modelled_driver_ms > 100


def test_running_out_of_memory_says_where_why_and_who(offload):
    result = memlake.replay(offload, "caching", "64GiB")
    assert (result.outcome, result.failed_event, result.num_ooms) == ("oom", result.failure.row, 1)
    assert result.rows == result.failure.row
    assert result.utilization is None
    assert result.failure.reason == "no contiguous range"
    assert result.failure.step == 6
    assert result.failure.tag
    assert result.failure.requested == int(offload.bytes[result.failure.row])
    assert result.failure.free + result.failure.allocated + result.failure.pending == result.failure.held
    for word in ("caching runs out of memory", f"row {result.failure.row} (step 6)", "GiB are held and free"):
        assert word in result.sentence


def test_going_on_counts_every_request_that_finds_nothing(scattered):
    ended = memlake.replay(scattered, "caching", "100MiB")
    went_on = memlake.replay(scattered, "caching", "100MiB", go_on=True)
    assert (ended.rows, went_on.rows) == (6, 8)
    assert went_on.num_ooms == 1
    assert went_on.failure == ended.failure
    assert went_on.outcome == "oom"


@pytest.mark.parametrize(
    ("capacity", "limit", "policy", "reason", "words"),
    [
        ("100MiB", None, "caching", "no contiguous range", "80 MiB are held and free, but no more than 40 MiB"),
        ("95MiB", None, "expandable", "no contiguous range", "but of the 95 MiB that are left the policy takes only"),
        ("200MiB", "100MiB", "caching", "no contiguous range", "may use, and the limit of 100 MiB allows 10 MiB more"),
        ("100MiB", "200MiB", "caching", "no contiguous range", "may use, and the driver has 10 MiB more"),
        ("85MiB", "60MiB", "direct", "no physical memory", "and 60 MiB are left within the limit of 60 MiB"),
        ("60MiB", None, "direct", "no physical memory", "90 MiB are asked for, but 0 B are in use already and 60 MiB"),
        ("200MiB", "80MiB", "direct", "limit", "the limit is 80 MiB"),
        ("200MiB", "40%", "caching", "limit", "the limit is 80 MiB"),
        ("200MiB", None, "per_process_memory_fraction:0.4", "limit", "the limit is 80 MiB"),
        ("200MiB", "150MiB", "per_process_memory_fraction:0.4", "limit", "the limit is 80 MiB"),
        ("200MiB", "60MiB", "per_process_memory_fraction:0.4", "limit", "the limit is 60 MiB"),
    ],
)
def test_the_reason_is_told_apart(scattered, capacity, limit, policy, reason, words):
    failure = memlake.replay(scattered, policy, capacity, limit=limit).failure
    assert failure.reason == reason
    assert words in failure.sentence


def test_pages_that_only_a_limit_forbids_name_the_limit(scattered):
    failure = memlake.replay(scattered, "expandable", "95MiB").failure
    limited = dataclasses.replace(failure, capacity=200 * MIB, limit=95 * MIB)
    assert "but of the 95 MiB that the limit of 95 MiB leaves the policy takes only whole pages" in limited.sentence


def test_memory_that_another_stream_still_uses_is_a_reason(make_trace):
    rows = [(Op.ALLOCATE, 0, 90), (Op.FREE, 0, 0), (Op.ALLOCATE, 1, 40), (Op.ALLOCATE, 2, 10), (Op.ALLOCATE, 3, 40)]
    trace = make_trace([*rows, (Op.FREE_ON, 1, 0, 1), (Op.ALLOCATE, 4, 40)])
    assert memlake.replay(trace, "caching", "100MiB").fits
    pending = memlake.replay(trace, "caching", "100MiB", events="recorded")
    assert pending.failure.reason == "pending on a stream"
    assert "another stream" in pending.sentence
    assert pending.host_waits == 1


def test_events_decide_when_memory_of_two_streams_is_free(make_trace):
    rows = [(Op.ALLOCATE, 0, 30), (Op.RECORD_STREAM, 0, 0, 1), (Op.FREE, 0, 0), (Op.ALLOCATE, 1, 30)]
    trace = make_trace([*rows, (Op.EVENT_DONE, 0, 0), (Op.FREE, 1, 0), (Op.ALLOCATE, 2, 30)])
    held = {
        events: memlake.replay(trace, "caching", "1GiB", events=events).peak_held // MIB
        for events in ("immediate", "recorded", "lag:0", "lag:1", "lag:2", "lag:1000")
    }
    assert held == {"immediate": 30, "recorded": 60, "lag:0": 30, "lag:1": 30, "lag:2": 60, "lag:1000": 60}


def test_options_change_what_happens(make_trace):
    trace = make_trace([(Op.ALLOCATE, 0, 100), (Op.FREE, 0, 0), (Op.ALLOCATE, 1, 30)])
    assert memlake.replay(trace, "caching", "1GiB").peak_held == 100 * MIB
    assert memlake.replay(trace, CachingOptions(max_split_size="64MiB"), "1GiB").peak_held == 130 * MIB
    assert memlake.replay(trace, "large_segment_size_mb:40", "1GiB").peak_held == 100 * MIB
    assert memlake.replay(trace, ExpandableOptions(large_segment_size="60MiB"), "1GiB").peak_held == 120 * MIB
    assert memlake.replay(trace, "roundup_power2_divisions:2", "1GiB").peak_held == 128 * MIB


def test_a_request_for_nothing_allocates_nothing(make_trace):
    trace = make_trace([(Op.ALLOCATE, 0, 0), (Op.FREE, 0, 0)])
    result = memlake.replay(trace, "caching", "1GiB")
    assert (result.peak_live, result.peak_held, result.peak_allocated) == (0, 0, 0)
    assert result.utilization is None


def test_memory_taken_in_advance_and_given_back_is_replayed(make_trace):
    rows = [(Op.PREALLOCATE, 0, 100), (Op.ALLOCATE, 0, 30), (Op.FREE, 0, 0), (Op.TRIM, 0, 0), (Op.ALLOCATE, 1, 40)]
    trace = make_trace(rows)
    assert memlake.replay(trace, "caching", "1GiB").peak_held == 100 * MIB
    assert memlake.replay(trace, "caching", "1GiB").driver_calls["cuMemAlloc"] == 2
    assert memlake.replay(trace, "direct", "1GiB").peak_held == 40 * MIB  # without a pool there is no advance
    assert memlake.replay(trace, "caching", "60MiB").fits  # an advance that is refused is no request


def test_an_empty_trace_fits(make_trace):
    result = memlake.replay(make_trace([]), "expandable", "2MiB")
    assert result.fits
    assert result.ns_per_event == 0


def test_a_timeline_has_so_many_samples_and_ends_at_the_end(moe):
    timeline = memlake.replay(moe, "caching", "80GiB", timeline=16).timeline
    assert len(timeline) == 17
    assert timeline.rows[0] == 0
    assert timeline.rows[-1] == len(moe)
    assert (timeline.allocated <= timeline.held).all()
    assert np.all(np.diff(timeline.rows.astype(np.int64)) > 0)
    assert memlake.replay(moe, "caching", "80GiB").timeline is None


@pytest.mark.parametrize("policy", ["caching", "lake", "stitch"])
def test_the_peak_is_in_every_timeline(moe, policy):
    whole = memlake.replay(moe, policy, "80GiB")
    for samples in (1, 7, 50):
        timeline = memlake.replay(moe, policy, "80GiB", timeline=samples).timeline
        assert max(timeline.held) == whole.peak_held
        assert max(timeline.allocated) == whole.peak_allocated


@pytest.mark.parametrize("samples", [1, 2, 3, 7, 20, 1000])
@pytest.mark.parametrize("spike", range(0, 20, 3))
def test_a_spike_of_one_row_is_in_every_timeline(make_trace, spike, samples):
    # One large request that is freed in the next row, among small ones; a sample at a fixed row would miss it.
    rows = []
    for index in range(20):
        rows.append((Op.ALLOCATE, 100 + index, 2))
        if index == spike:
            rows += [(Op.ALLOCATE, 1, 300), (Op.FREE, 1, 0)]
        rows.append((Op.FREE, 100 + index, 0))
    for policy in ("direct", "caching"):
        result = memlake.replay(make_trace(rows), policy, "1GiB", timeline=samples)
        assert max(result.timeline.allocated) == result.peak_allocated == 302 * MIB
        assert max(result.timeline.held) == result.peak_held >= 302 * MIB
        # It is in the sample that covers its row, and in no other.
        at = np.flatnonzero(result.timeline.allocated == 302 * MIB)
        first, last = result.timeline.rows[at[0]], result.timeline.rows[at[-1] + 1]
        assert first <= 2 * spike + 1 < last


def test_a_timeline_begins_with_what_was_there_before_the_history(tmp_path):
    job = TorchJob()
    job.is_recording = False
    for _ in range(30):
        job.alloc(20)
    job.is_recording = True
    job.free(job.alloc(50))
    result = memlake.replay(job.save(tmp_path / "warm.pickle"), "caching", "2GiB", timeline=2)
    assert result.timeline.rows.tolist() == [30, 31, 32]
    assert result.timeline.allocated.tolist() == [650 * MIB, 650 * MIB, 600 * MIB]


def test_json_has_every_key_and_is_json(offload):
    for capacity in ("64GiB", "100GiB"):
        text = memlake.replay(offload, "caching", capacity, timeline=3).to_json()
        assert set(text) >= KEYS
        again = json.loads(json.dumps(text, allow_nan=False))
        assert again == text
    assert text["driver_calls"]["cuMemAlloc"] > 0


def test_a_result_is_a_value(moe):
    first, second = (memlake.replay(moe, "caching", "80GiB") for _ in range(2))
    assert first == second
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.capacity = 1
    with pytest.raises(TypeError):
        first.driver_calls["cuMemAlloc"] = 0


def test_threads_replay_at_the_same_time_and_change_nothing(moe, offload):
    jobs = [(moe, "caching", "80GiB"), (offload, "expandable", "60GiB"), (moe, "direct", "80GiB")] * 4
    alone = {job[1]: memlake.replay(*job) for job in jobs[:3]}
    with ThreadPoolExecutor(6) as executor:
        for result in executor.map(lambda job: memlake.replay(*job), jobs):
            assert result == alone[result.policy]


def test_a_replay_leaves_nothing_behind(scattered):
    before = memlake.emulator.ledger()
    memlake.replay(scattered, "caching", "100MiB")
    after = memlake.emulator.ledger()
    assert len(after.violations) == len(before.violations)
    assert after.is_empty == before.is_empty


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"policy": "cacheing"}, "did you mean caching?"),
        ({"capacity": "50%"}, "capacity '50%' is a share"),
        ({"capacity": "1MiB"}, "capacity must be between 2 MiB and 16 TiB, got 1 MiB"),
        ({"capacity": "17TiB"}, "capacity must be between 2 MiB and 16 TiB"),
        ({"capacity": 2**70}, "larger than any memory"),
        ({"capacity": -1}, "must not be negative"),
        ({"capacity": 1.5}, "capacity must be an int or a string"),
        ({"events": "soon"}, 'events must be "immediate", "recorded" or "lag:N"'),
        ({"events": "lag:-1"}, "lag:N"),
        ({"events": "lag:" + "9" * 30}, "lag:N"),
        ({"events": None}, "got None"),
        ({"limit": "nothing"}, "limit 'nothing' is not a size"),
        ({"limit": "101%"}, "more than the whole"),
        ({"timeline": -1}, "timeline must be a whole number of at least 0, got -1"),
        ({"timeline": "many"}, "timeline must be a whole number"),
        ({"timeline": True}, "timeline must be a whole number"),
    ],
)
def test_what_cannot_be_used_is_an_error_that_says_so(moe, arguments, sentence):
    with pytest.raises(memlake.ConfigError) as refused:
        memlake.replay(moe, **({"policy": "caching", "capacity": "80GiB"} | arguments))
    assert sentence in str(refused.value)


def test_a_path_is_loaded(moe, tmp_path):
    path = tmp_path / "moe.npz"
    moe.save(path)
    expected = memlake.replay(moe, "caching", "80GiB")
    for given in (path, str(path)):
        assert memlake.replay(given, "caching", "80GiB") == expected
        assert memlake.compare(given, "80GiB", "caching")["caching"] == expected
    assert memlake.fit(path, "caching")["caching"].min_capacity > moe.peak_live
    for function in (memlake.replay, memlake.compare, memlake.fit):
        with pytest.raises(FileNotFoundError, match=r"nothing\.npz: cannot be read") as missing:
            function(tmp_path / "nothing.npz")
        assert isinstance(missing.value, memlake.TraceError)


def test_what_is_neither_a_trace_nor_a_path_is_refused():
    with pytest.raises(memlake.ConfigError, match=r"got NoneType$"):
        memlake.replay(None, "caching", "80GiB")
