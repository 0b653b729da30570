import argparse
import dataclasses
import inspect
import pickle

import pytest

import memlake
from memlake import _native
from memlake.cli.replay_arguments import add_policy
from memlake.policies import (
    CachingOptions,
    Capabilities,
    DirectOptions,
    DriverOptions,
    ExpandableOptions,
    LakeOptions,
    StitchOptions,
    default_policy,
    known_policies,
    policies_with,
)
from memlake.policies.known import _class_for
from memlake.policies.registry import entries


@pytest.mark.parametrize("text", ["\u00a0lake", "lake\u2003", "lake\x1c", "lake,\u3000aliasing:none"])
def test_only_ascii_blanks_are_ignored_as_in_c(text):
    with pytest.raises(memlake.ConfigError):
        memlake.policy(text)
    assert memlake.policy(" \t\r\n\v\fla ke") == LakeOptions()


def test_pools_replays_and_the_command_line_have_the_registrys_default(gpu):
    parser = argparse.ArgumentParser()
    add_policy(parser)
    assert memlake.Pool(gpu).policy.name == default_policy()
    assert inspect.signature(memlake.replay).parameters["policy"].default == default_policy()
    assert parser.get_default("policy") == default_policy()


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("stitch,frag_limit:64MiB", StitchOptions(frag_limit="64MiB")),
        (" stitch , frag_limit : 64 MiB , ", StitchOptions(frag_limit="64MiB")),
        ("policy:stitch,max_views:0", StitchOptions(max_views=0)),
        ("max_views:0,policy:stitch,reuse_limit:2.5", StitchOptions(max_views=0, reuse_limit=2.5)),
        ("stitch,max_view_bytes:1.5G", StitchOptions(max_view_bytes=3 * 2**29)),
        ("lake,aliasing:none", LakeOptions(aliasing="none")),
        ("aliasing:prefix", LakeOptions(aliasing="prefix")),
        ("caching,max_split_size_mb:64", CachingOptions(max_split_size="64MiB")),
        ("expandable,max_split_size_mb:64", ExpandableOptions(max_split_size="64MiB")),
        ("expandable,expandable_segments:True", ExpandableOptions()),
        ("direct", DirectOptions()),
        ("driver", DriverOptions()),
        ("driver,reuse_allow_opportunistic:False", DriverOptions(reuse_allow_opportunistic=False)),
    ],
)
def test_one_text_names_a_policy_and_its_options(text, options):
    assert memlake.policy(text) == options
    assert memlake.policy(options.configuration) == options


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("lake,frag_limit:64MiB", "frag_limit is an option of policy:stitch, not of policy:lake; leave it out"),
        ("frag_limit:64MiB", "frag_limit is an option of policy:stitch"),
        ("lake,per_process_memory_fraction:0.5", "is an option of policy:caching and policy:expandable"),
        ("lake,limit:4GiB", "limit describes a pool and not its policy; give it to the pool instead"),
        ("driver:emulated", "driver describes a pool"),
        ("caching,expandable_segments:True", "policy and expandable_segments contradict each other"),
        ("stitch,frag_limt:64MiB", "unknown key 'frag_limt' in a configuration; hint: did you mean frag_limit?"),
        ("stitch,frag_limit:" + "9" * 40, "at most 9223372036854775807"),
        ("stitch,frag_limit:0." + "0" * 30 + "1G", "a whole number of bytes"),
        ("stitch,chunk_size:1MiB", "chunk_size must be whole MiB and at least 2 MiB, got '1MiB'"),
        ("frag_limit:64MiB,stitch", "cannot read 'stitch'"),
        ("Stitch", "did you mean stitch?"),
    ],
)
def test_a_text_that_makes_no_sense_is_refused_with_its_reason(text, sentence):
    with pytest.raises(memlake.ConfigError) as refused:
        memlake.policy(text)
    assert sentence in str(refused.value)


def test_zeros_behind_the_point_change_nothing():
    assert memlake.policy(f"stitch,frag_limit:64.{'0' * 64}MiB") == StitchOptions(frag_limit="64MiB")


@pytest.mark.parametrize("name", known_policies())
def test_the_fields_of_a_class_are_the_options_of_the_core(name):
    options = known_policies()[name]
    schema = entries()[name].options
    pairs = options._options()
    assert [option for option, _ in pairs] == list(schema)
    assert {field.name for _, field in pairs} == {field.name for field in dataclasses.fields(options)}
    for option, field in pairs:
        try:
            explicit = memlake.policy(f"{name},{option.key}:{option.default}")
        except memlake.ConfigError:
            # Words, or a value that only means "off": then the class says so with nothing.
            assert not field.default or not any(field.default)
        else:
            assert getattr(explicit, field.name) == field.default


def test_the_capabilities_are_those_of_the_core():
    names = [field.name for field in dataclasses.fields(Capabilities)]
    assert names == list(_native.capabilities())
    assert all(_native.capabilities().values())
    assert default_policy() == "lake"
    assert LakeOptions().capabilities.spill
    assert not StitchOptions().capabilities.spill
    assert policies_with("spill") == '"lake"'
    assert policies_with("reuse_rules") == '"lake" or "driver"'


def test_a_policy_without_a_class_gets_one():
    made = _class_for(entries()["stitch"])
    options = made(frag_limit="64MiB", reuse_limit=2)
    assert (options.frag_limit, options.reuse_limit, options.max_view_bytes) == (64 * 2**20, 2.0, None)
    assert options.configuration == StitchOptions(frag_limit="64MiB", reuse_limit=2).configuration
    assert options == made(frag_limit=64 * 2**20, reuse_limit=2.0)
    assert made().configuration == "stitch"
    assert made._from_settings({"max_views": "7"}) == made(max_views=7)
    with pytest.raises(memlake.ConfigError, match="chunk_size must be whole MiB"):
        made(chunk_size="1MiB")
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.max_views = 3
    assert pickle.loads(pickle.dumps(options)) == memlake.policy(options.configuration)


def test_the_default_of_replays_is_that_of_pools(gpu, moe):
    assert memlake.replay(moe, capacity="80GiB").policy == memlake.Pool(gpu).policy.name == default_policy()
