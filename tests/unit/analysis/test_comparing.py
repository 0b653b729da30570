import json
import re

import pytest

import memlake
from memlake.policies import CachingOptions
from memlake.trace import Op
from memlake.wording import listed

GIB = 2**30
SETTING = "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (torch 2.10 and later also read PYTORCH_ALLOC_CONF)"


def test_all_policies_are_compared_by_default_in_their_order(moe, compared_policies):
    comparison = memlake.compare(moe, "80GiB")
    assert [result.policy for result in comparison] == compared_policies
    assert len(comparison) == len(compared_policies)
    assert comparison.fitting == comparison.results
    assert comparison[2] is comparison["expandable"]
    assert {result.peak_live for result in comparison} == {moe.peak_live}
    with pytest.raises(KeyError):
        comparison["pond"]


def test_the_same_trace_gives_the_same_comparison_every_time(offload):
    first = memlake.compare(offload, "60GiB", events="lag:500")
    for _ in range(3):
        assert memlake.compare(offload, "60GiB", events="lag:500") == first
    for result in first:
        assert memlake.replay(offload, result.options, "60GiB", events="lag:500") == result


def test_policies_may_be_chosen_and_count_once(moe):
    comparison = memlake.compare(
        moe, "80GiB", ["direct", "max_split_size_mb:128", CachingOptions(max_split_size="128MiB"), "direct"]
    )
    assert [result.label for result in comparison] == ["direct", "caching (max_split_size_mb:128)"]
    assert comparison["caching (max_split_size_mb:128)"].policy == "caching"
    assert [result.label for result in memlake.compare(moe, "80GiB", "caching")] == ["caching"]


def test_progress_is_told_after_each(moe, compared_policies):
    told = []
    memlake.compare(moe, "80GiB", progress=lambda done, total: told.append((done, total)))
    total = len(compared_policies)
    assert told == [(n, total) for n in range(1, total + 1)]


def test_the_sentence_says_who_fits_who_does_not_and_what_to_do(offload, compared_policies):
    sentence = memlake.compare(offload, "64GiB").sentence
    for words in (
        "On a device of 64 GiB caching runs out of memory: at row",
        f"{listed([name for name in compared_policies if name != 'caching'])} fit",
        f"; use lake, or {SETTING}.",
    ):
        assert words in sentence
    of_torch = memlake.compare(offload, "64GiB", ["caching", "expandable"]).sentence
    assert of_torch.endswith(f"; {SETTING}.")
    assert memlake.compare(offload, "64GiB", ["caching", "lake"]).sentence.endswith("; use lake.")


def test_the_sentence_when_all_fit(moe, compared_policies):
    sentence = memlake.compare(moe, "80GiB").sentence
    assert sentence.startswith(f"On a device of 80 GiB {listed(compared_policies)} fit; caching spends")
    alone = memlake.compare(moe, "80GiB", "direct").sentence
    assert alone.startswith("On a device of 80 GiB direct fits; it spends ")
    options = ["caching", "roundup_power2_divisions:2"]
    assert "caching spends the least time in the driver (" in memlake.compare(moe, "80GiB", options).sentence


def test_the_sentence_when_none_fits(offload, make_trace):
    comparison = memlake.compare(offload, "59GiB")
    assert not comparison.fitting
    assert "no policy fits, though only 58.98 GiB are live at most" in comparison.sentence
    assert "memlake fit tells" in comparison.sentence
    sentence = memlake.compare(offload, "50GiB").sentence
    assert f"nothing can fit: 58.98 GiB are live at once (row {offload.peak_row})" in sentence
    assert "nothing can fit" in memlake.compare(make_trace([(Op.ALLOCATE, 0, 2**20)]), "16GiB").sentence


def test_the_sentence_when_a_limit_is_too_low(offload):
    def ending(policies, **limits):
        return memlake.compare(offload, "80GiB", policies, **limits).sentence.rsplit("; ", 1)[-1]

    assert ending("lake", limit="58GiB").startswith("On a device of 80 GiB with a limit of 58 GiB nothing can fit: ")
    assert ending("lake", limit="58GiB").endswith(", so raise the limit to at least 58.98 GiB.")
    assert ending(["lake", "caching"], limit="59GiB") == "raise the limit."
    assert ending("per_process_memory_fraction:0.75") == "raise the limit."
    one_limited = ["caching", "per_process_memory_fraction:0.95"]
    mixed = memlake.compare(offload, "64GiB", one_limited).sentence
    assert mixed.endswith("; raise the limit, or use a larger device.")


def test_stitch_and_direct_are_not_recommended(moe, offload):
    sentence = memlake.compare(moe, "54GiB", ["caching", "expandable", "direct"]).sentence
    assert sentence.endswith(
        "; direct fits; that is of no use for a job: the device must be larger, or the job need less."
    )
    for policies in (["caching", "stitch"], ["caching", "direct", "stitch"]):
        sentence = memlake.compare(offload, "64GiB", policies).sentence
        assert "use stitch" not in sentence
        assert "use direct" not in sentence
        assert "PYTORCH_NO_CUDA_MEMORY_CACHING" not in sentence
    all_fit = memlake.compare(offload, "80GiB").sentence
    assert not re.search(r"(stitch|direct) (holds|spends) the least", all_fit)


def test_a_policy_without_a_modelled_time_does_not_win_by_it(moe):
    assert "; driver spends" not in memlake.compare(moe, "80GiB", ["direct", "driver"]).sentence
    alone = memlake.compare(moe, "80GiB", "driver")
    assert alone.sentence.startswith("On a device of 80 GiB driver fits; it holds ")


def test_json_has_one_entry_per_policy(offload, compared_policies):
    text = json.loads(json.dumps(memlake.compare(offload, "64GiB").to_json(), allow_nan=False))
    assert text["capacity"] == 64 * GIB
    assert text["events"] == "immediate"
    assert text["rows"] == len(offload)
    assert [entry["policy"] for entry in text["policies"]] == compared_policies
    failed = text["policies"][compared_policies.index("caching")]
    assert failed["failure"]["reason"] == "no contiguous range"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"policies": []}, "policies is empty"),
        ({"policies": ["caching", "cache"]}, "no policy is named 'cache'"),
        ({"policies": [None]}, "policy must be a string"),
        ({"events": "later"}, "events must be"),
        ({"limit": "x"}, "limit 'x'"),
        ({"capacity": "80 parsecs"}, "unknown unit"),
    ],
)
def test_what_cannot_be_used_is_an_error(moe, arguments, sentence):
    with pytest.raises(memlake.ConfigError) as refused:
        memlake.compare(moe, **({"capacity": "80GiB"} | arguments))
    assert sentence in str(refused.value)


def test_a_policy_without_addresses_is_one_outcome_and_not_the_end(make_trace):
    rows = [(Op.ALLOCATE, 0, 0.5), (Op.ALLOCATE, 1, 16), *((Op.ALLOCATE, n, 16, n) for n in range(2, 40))]
    trace = make_trace(rows)
    comparison = memlake.compare(trace, "15TiB")
    assert comparison["caching"].fits
    assert comparison["expandable"].outcome == "oom"
    assert comparison["expandable"].failure.reason == "no addresses"
    assert "no range of addresses is left" in comparison["expandable"].sentence
