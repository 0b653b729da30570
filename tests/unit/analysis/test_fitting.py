import json

import pytest

import memlake
from memlake.trace import Op, example_traces, load_example

MIB = 2**20

# Over the live peak, from torch 2.13.0's own library, to 0.1 % (src/memlake/examples/README.md).
TORCH = {
    "train_opt-13b_lora_offload": (1.339, 1.002),
    "train_opt-1.3b_recompute": (1.265, 1.002),
    "train_gpt-1.4b": (1.080, 1.007),
    "train_moe": (1.014, 1.015),
    "infer_opt-30b_weight_streaming": (1.209, 1.002),
    "infer_sdxl_sizes": (1.299, 1.001),
}


@pytest.mark.parametrize("name", TORCH)
def test_the_smallest_devices_are_those_that_torch_needs(name):
    found = memlake.fit(load_example(name), ["caching", "expandable"])
    for result, torch in zip(found, TORCH[name], strict=True):
        assert result.over_live == pytest.approx(torch, abs=0.002)


def test_every_example_is_among_them():
    assert set(TORCH) == set(example_traces())


def test_the_answer_ran_is_on_the_grid_and_a_little_less_does_not_run(moe):
    for result in memlake.fit(moe):
        assert result.result.fits
        assert result.result.capacity == result.min_capacity
        assert result.min_capacity % (2 * MIB) == 0
        assert result.over_live == result.min_capacity / moe.peak_live
        assert memlake.replay(moe, result.result.options, result.min_capacity) == result.result
        less = result.min_capacity - moe.peak_live // 1000 - 2 * MIB
        assert less < moe.peak_live or not memlake.replay(moe, result.result.options, less).fits


def test_the_same_every_time(moe):
    assert memlake.fit(moe) == memlake.fit(moe)


def test_a_policy_that_fits_the_live_peak_needs_no_more(make_trace):
    trace = make_trace([(Op.ALLOCATE, 0, 100), (Op.FREE, 0, 0), (Op.ALLOCATE, 1, 100)])
    assert memlake.fit(trace, "caching")[0].min_capacity == 100 * MIB


def test_a_policy_that_does_not_fit_at_all_is_said_so(moe):
    found = memlake.fit(moe, ["per_process_memory_fraction:0.1", "caching"])
    assert found[0].min_capacity is None
    assert found[0].over_live is None
    assert not found[0].result.fits
    assert found[0].result.capacity == found.largest_capacity
    assert "does not run even on 117.87 GiB" in found.sentence
    assert found.to_json()["policies"][0]["min_capacity"] is None


def test_a_tiny_trace_still_gets_the_segments_that_pytorch_makes(make_trace):
    assert memlake.fit(make_trace([(Op.ALLOCATE, 0, 1.5)]), "caching")[0].min_capacity == 20 * MIB
    assert memlake.fit(make_trace([]), "caching")[0].min_capacity == 2 * MIB
    assert memlake.fit(make_trace([]), "caching")[0].over_live is None


def test_the_sentence_and_the_json_say_who_needs_what(moe, compared_policies):
    found = memlake.fit(moe)
    assert found.sentence.startswith("53.58 GiB are live at most: ")
    assert "lake 54.01 GiB, caching" in found.sentence
    text = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert [entry["policy"] for entry in text["policies"]] == compared_policies
    assert all(entry["outcome"] == "ok" for entry in text["policies"])
    of_caching = text["policies"][compared_policies.index("caching")]
    assert of_caching["min_capacity"] == found["caching"].min_capacity
    assert of_caching["over_live"] == found["caching"].over_live


def test_what_cannot_be_used_is_an_error(moe):
    with pytest.raises(memlake.ConfigError, match="events must be"):
        memlake.fit(moe, events="lag")
    with pytest.raises(memlake.ConfigError, match="no policy is named"):
        memlake.fit(moe, "lake of fire")
    with pytest.raises(memlake.ConfigError, match=r"must be a memlake\.Trace"):
        memlake.fit(17)


def test_requests_beyond_all_addresses_are_an_outcome(make_trace):
    trace = make_trace([(Op.ALLOCATE, number, 2**42) for number in range(3)])
    found = memlake.fit(trace)
    assert all(result.min_capacity is None for result in found)
