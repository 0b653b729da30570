import dataclasses
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memlake
from memlake.policies import (
    CachingOptions,
    DirectOptions,
    ExpandableOptions,
    StitchOptions,
    known_policies,
    resolve_policy,
)

MIB = 2**20
TORCH = [CachingOptions, ExpandableOptions]


@pytest.mark.parametrize("options", TORCH)
def test_every_option_is_written_in_the_units_of_pytorch(options):
    chosen = options(
        max_split_size="128MiB",
        max_non_split_rounding=64 * MIB,
        roundup_power2_divisions=4,
        garbage_collection_threshold=0.6,
        large_segment_size="40MiB",
        memory_fraction=0.5,
    )
    assert chosen.configuration == (
        f"{options.name},large_segment_size_mb:40,max_split_size_mb:128,max_non_split_rounding_mb:64,"
        "roundup_power2_divisions:4,garbage_collection_threshold:0.6,per_process_memory_fraction:0.5"
    )
    assert memlake.policy(chosen.configuration) == chosen


@pytest.mark.parametrize("threshold", [1e-5, 0.1 + 0.2, 5e-324, 1 - 2**-53])
def test_numbers_are_written_so_that_they_mean_the_same(threshold):
    options = CachingOptions(garbage_collection_threshold=threshold)
    assert memlake.policy(options.configuration) == options


def test_a_memory_fraction_is_a_limit_and_1_is_none():
    assert CachingOptions(memory_fraction=0.5).limit_on(1001) == 500
    assert CachingOptions(memory_fraction=0).limit_on(1001) == 0
    assert CachingOptions().limit_on(1001) is None
    assert DirectOptions().limit_on(1001) is None


def test_options_are_values():
    one = CachingOptions(max_split_size="128MiB")
    assert one == CachingOptions(max_split_size=128 * MIB)
    assert hash(one) == hash(CachingOptions(max_split_size=128 * MIB))
    assert one != ExpandableOptions(max_split_size="128MiB")
    assert pickle.loads(pickle.dumps(one)) == one
    assert dataclasses.replace(one, memory_fraction=0.5).max_split_size == 128 * MIB
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.memory_fraction = 0.5
    with pytest.raises(TypeError):
        CachingOptions("128MiB")


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"max_split_size": "19MiB"}, "max_split_size must be at least large_segment_size, 20 MiB, got 19 MiB"),
        ({"max_split_size": "30MiB", "large_segment_size": "40MiB"}, "at least large_segment_size, 40 MiB"),
        ({"max_split_size": 128}, "max_split_size must be whole MiB, as PyTorch's max_split_size_mb, got 128 bytes"),
        ({"max_split_size": "a lot"}, "max_split_size 'a lot' is not a size"),
        ({"max_split_size": "50%"}, "there is no whole"),
        ({"max_non_split_rounding": "1MiB"}, "max_non_split_rounding must be at least"),
        ({"large_segment_size": "10MiB"}, "large_segment_size must be more than 10 MiB"),
        ({"garbage_collection_threshold": 1}, "between 0 and 1"),
        ({"garbage_collection_threshold": float("nan")}, "garbage_collection_threshold must be a number"),
        ({"garbage_collection_threshold": "0.5"}, "must be a number, got '0.5'"),
        ({"memory_fraction": 1.5}, "memory_fraction must be from 0 to 1, got 1.5"),
        ({"memory_fraction": True}, "memory_fraction must be a number, got True"),
        ({"roundup_power2_divisions": 3}, "powers of two"),
        ({"roundup_power2_divisions": True}, "powers of two"),
        ({"roundup_power2_divisions": [4, 4]}, "needs 16 numbers"),
        ({"roundup_power2_divisions": {256: 4}}, 'write it with a unit: "256MiB"'),
        ({"roundup_power2_divisions": {"3MiB": 4}}, "must be a power of two of MiB, got 3 MiB"),
        ({"roundup_power2_divisions": "[256]"}, "must be a number or a list"),
        ({"roundup_power2_divisions": "[0:1]"}, "must be a power of two of MiB"),
    ],
)
@pytest.mark.parametrize("options", TORCH)
def test_what_pytorch_would_refuse_is_an_error_that_says_why(options, setting, sentence):
    with pytest.raises(memlake.ConfigError) as refused:
        options(**setting)
    assert sentence in str(refused.value)


# Asked from torch 2.13.0's own library, by requests of one byte more than each boundary.
LIST = "[256:1,512:2,2048:8,>:2]"
TABLE = (1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 0, 8, 2, 2, 2, 2)


@pytest.mark.parametrize(
    ("divisions", "table"),
    [
        (LIST, TABLE),
        ({"256MiB": 1, "512MiB": 2, 2**31: 8, ">": 2}, TABLE),
        (TABLE, TABLE),
        (list(TABLE), TABLE),
        (8, (8,) * 16),
        ("8", (8,) * 16),
        ("[]", (0,) * 16),
        ({">": 8}, (8,) * 16),
        ("[65536:4]", (4,) * 16),
        ("[512:2,256:4]", (2,) * 8 + (4, 2) + (0,) * 6),
    ],
)
def test_divisions_are_written_as_a_number_a_list_a_mapping_or_a_table(divisions, table):
    assert CachingOptions(roundup_power2_divisions=divisions).roundup_power2_divisions == table


@pytest.mark.parametrize(
    "options",
    [
        CachingOptions(),
        ExpandableOptions(),
        CachingOptions(max_split_size="128MiB", max_non_split_rounding="32MiB", large_segment_size="24MiB"),
        ExpandableOptions(roundup_power2_divisions=LIST, garbage_collection_threshold=0.8, memory_fraction=0.95),
        CachingOptions(roundup_power2_divisions=8),
    ],
)
def test_options_as_text_are_what_pytorch_reads(options):
    assert memlake.policy(options.to_torch()) == options


@pytest.mark.parametrize(
    "text",
    ["[256:1,512:2,2048:8,>:2]", "[64:8,256:4]", "8", "[1:2,>:4]", "[16384:0,>:2]", "[1:8]", "[256:2,1024:0,>:4]"],
)
def test_a_list_is_written_as_short_as_it_can_be(text):
    options = CachingOptions(roundup_power2_divisions=text)
    assert options.to_text() == f"roundup_power2_divisions:{text}"


@settings(derandomize=True)
@given(st.lists(st.sampled_from([0, 0, 1, 2, 4, 8]), min_size=16, max_size=16))
def test_every_table_can_be_written_and_read_back(table):
    options = CachingOptions(roundup_power2_divisions=table)
    assert memlake.policy(options.to_torch()) == options


def test_a_label_tells_settings_apart():
    assert CachingOptions().label == "caching"
    assert CachingOptions(max_split_size="128MiB").label == "caching (max_split_size_mb:128)"
    assert DirectOptions().label == "direct"


def test_the_options_of_stitch_are_written_in_bytes():
    chosen = StitchOptions(
        frag_limit=0, reuse_limit=2, chunk_size="4MiB", max_views=7, max_view_bytes="1GiB", max_mappings=9
    )
    assert chosen.configuration == (
        f"stitch,frag_limit:0,reuse_limit:2.0,chunk_size:{4 * MIB},max_views:7,max_view_bytes:{2**30},max_mappings:9"
    )
    assert memlake.policy(chosen.configuration) == chosen
    assert StitchOptions(frag_limit="64MiB").label == "stitch (frag_limit:67108864)"
    assert StitchOptions(frag_limit="64MiB") == StitchOptions(frag_limit=64 * MIB)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"frag_limit": "a lot"}, "frag_limit 'a lot' is not a size"),
        ({"chunk_size": "1MiB"}, "chunk_size must be whole MiB and at least 2 MiB, got 1 MiB"),
        ({"chunk_size": 3 * MIB + 1}, "chunk_size must be whole MiB"),
        ({"reuse_limit": 0.5}, "reuse_limit must be a number from 1 to 1000000, got 0.5"),
        ({"reuse_limit": float("nan")}, "reuse_limit must be a number"),
        ({"max_views": -1}, "max_views must be a whole number of at least 0, got -1"),
        ({"max_mappings": True}, "max_mappings must be a whole number"),
        ({"max_view_bytes": 0}, "write max_views=0 to stitch nothing"),
    ],
)
def test_settings_of_stitch_that_make_no_sense_are_errors(setting, sentence):
    with pytest.raises(memlake.ConfigError) as refused:
        StitchOptions(**setting)
    assert sentence in str(refused.value)


def test_every_policy_says_what_it_is():
    for name, options in known_policies().items():
        assert options().name == name
        assert options().summary
        assert memlake.policy(name) == options()
        assert memlake.policy(f" {name} ") == options()


def test_a_policy_is_given_by_name_by_configuration_or_by_options():
    chosen = ExpandableOptions(max_split_size="128MiB")
    assert resolve_policy(chosen) is chosen
    assert resolve_policy("expandable_segments:True,max_split_size_mb:128") == chosen


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("cacheing", "no policy is named 'cacheing'; hint: did you mean caching? known: lake, caching, "),
        ("", "no policy is named ''"),
        ("x" * 1000, "..."),
        (None, "policy must be a string or one of LakeOptions, CachingOptions"),
        (7, "got 7 of type int"),
        (CachingOptions, "write CachingOptions()"),
    ],
)
def test_what_is_no_policy_is_an_error_that_names_those_there_are(given, sentence):
    with pytest.raises(memlake.ConfigError) as refused:
        resolve_policy(given)
    assert sentence in str(refused.value)
    assert len(str(refused.value)) < 300
