import pytest

import memlake
from memlake import _native
from memlake.policies import CachingOptions, ExpandableOptions


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("expandable_segments:True", ExpandableOptions()),
        ("expandable_segments:False", CachingOptions()),
        ("expandable_segments:True,max_split_size_mb:128", ExpandableOptions(max_split_size="128MiB")),
        ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", ExpandableOptions()),
        (" export PYTORCH_ALLOC_CONF = 'max_split_size_mb:64' ", CachingOptions(max_split_size="64MiB")),
        ('PYTORCH_ALLOC_CONF="expandable_segments:True"', ExpandableOptions()),
        (" max_split_size_mb : 64 , ", CachingOptions(max_split_size="64MiB")),
        ("max_split_size_mb:64,max_split_size_mb:32", CachingOptions(max_split_size="32MiB")),
        ("max_non_split_rounding_mb:200", CachingOptions(max_non_split_rounding="200MiB")),
        ("garbage_collection_threshold:0.8", CachingOptions(garbage_collection_threshold=0.8)),
        ("per_process_memory_fraction:0.5", CachingOptions(memory_fraction=0.5)),
        ("large_segment_size_mb:12", CachingOptions(large_segment_size="12MiB")),
        (
            "large_segment_size_mb:40,max_split_size_mb:40",
            CachingOptions(large_segment_size="40MiB", max_split_size="40MiB"),
        ),
        ("roundup_power2_divisions:8", CachingOptions(roundup_power2_divisions=8)),
        (
            "roundup_power2_divisions:[64:8,128:2,256:4,>:1],expandable_segments:True",
            ExpandableOptions(roundup_power2_divisions={"64MiB": 8, "128MiB": 2, "256MiB": 4, ">": 1}),
        ),
        ("backend:native", CachingOptions()),
        ("throw_on_cudamalloc_oom:False", CachingOptions()),
        ("pinned_num_register_threads:8,release_lock_on_cudamalloc:True", CachingOptions()),
    ],
)
def test_a_configuration_of_pytorch_gives_its_policy(text, options):
    assert memlake.policy(text) == options


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "max_split_size:128",
            "unknown key 'max_split_size' in a configuration; hint: did you mean max_split_size_mb?",
        ),
        ("nonsense:1", "in a configuration; hint: known: policy, aliasing, expandable_segments, "),
        ("backend:cudaMallocAsync", "'backend:cudaMallocAsync' cannot be used: only native"),
        ("throw_on_cudamalloc_oom:True", "cannot be used: refusing before anything is tried"),
        ("expandable_segments_reserve:0.5", "newer than torch 2.13"),
        ("expandable_segments:true", "must be True or False, written like this, got 'true'"),
        ("expandable_segments:1", "must be True or False"),
        ("max_split_size_mb:19", "max_split_size_mb must be at least large_segment_size_mb, 20, got 19"),
        ("max_split_size_mb:20.5", "must be a whole number of MiB, at least large_segment_size_mb, got '20.5'"),
        ("max_split_size_mb:-5", "must be a whole number of MiB"),
        ("max_split_size_mb:²⁰", r"got '\xc2\xb2\xe2\x81\xb0'"),
        ("max_split_size_mb:9999999999999999999", "must be a whole number of MiB"),
        ("garbage_collection_threshold:0", "leave it out to turn it off"),
        ("garbage_collection_threshold:nan", "must be a number between 0 and 1"),
        ("per_process_memory_fraction:2", "must be a number from 0 to 1"),
        ("roundup_power2_divisions:[256:1", "or a list such as [256:1,512:2,>:8], got '[256:1'"),
        ("roundup_power2_divisions:[256:3]", "a power of two"),
        ("max_split_size_mb:", "cannot read 'max_split_size_mb:'"),
        (":", "cannot read ':'"),
        (",max_split_size_mb:64", "cannot read ',max_split_size_mb:64'"),
        ("a:b:c", "unknown key 'a'"),
        ("\0:\x1b[31m", "cannot read"),
        ("x" * 100_000 + ":1", "unknown key"),
    ],
)
def test_what_cannot_be_read_or_reproduced_is_an_error_that_names_it(text, sentence):
    with pytest.raises(memlake.ConfigError) as refused:
        memlake.policy(text)
    assert sentence in str(refused.value)
    assert len(str(refused.value)) < 900
    assert str(refused.value).isprintable()


def test_no_key_is_in_two_lists():
    for entry in _native.policies():
        keys = [*(option["key"] for option in entry["options"]), *entry["ignored"], *entry["refused"]]
        assert len(set(keys)) == len(keys)
        assert all(entry["ignored"].values())
        assert all(entry["refused"].values())
