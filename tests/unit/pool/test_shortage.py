"""What `OutOfMemory` says. The sentences themselves are tested where they are made: tests/native/test_shortage.cpp."""

import contextlib
import ctypes
import dataclasses
import pickle
import random
import re
from pathlib import Path
from typing import get_origin, get_type_hints

import pytest

import memlake
from memlake import OutOfMemory
from memlake.pool.shortage import Shortage
from memlake.units import format_bytes

MIB = 2**20
LIST = Path(__file__).parents[3] / "core" / "pool" / "shortage.inc"


@pytest.fixture
def large(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="1GiB", backing="none")
    return gpu


def refusal(pool, nbytes, **arguments):
    with pytest.raises(OutOfMemory) as caught:
        pool.allocate(nbytes, **arguments)
    return caught.value


def test_max_size_is_named_where_it_binds_and_not_the_limit(large):
    with memlake.Pool(large, max_size="100MiB") as pool:
        pool.limit = "500MiB"
        error = refusal(pool, "101MiB")
        assert (error.reason, error.binds, error.limit) == ("limit", "max_size", 100 * MIB)
        assert "max_size is at least 102 MiB" in error.hint  # lake takes whole pages of 2 MiB
        assert "limit" not in error.hint
        pool.limit = "50MiB"
        error = refusal(pool, "60MiB")
        assert (error.reason, error.binds, error.limit) == ("limit", "limit", 50 * MIB)
        assert "raise the pool's limit to at least 60 MiB" in error.hint
        assert "max_size" not in error.hint
        pool.limit = "60MiB"
        pool.allocate("60MiB").close()


def test_the_memory_fraction_is_named_where_it_binds(large):
    pool = memlake.Pool(large, memlake.policies.CachingOptions(memory_fraction=0.25))
    error = refusal(pool, "300MiB")
    assert error.binds == "memory_fraction"
    assert "ask for less, or make a pool with a memory fraction of at least 0.3 (" in error.hint
    again = memlake.Pool(large, memlake.policies.CachingOptions(memory_fraction=0.3))
    again.allocate("300MiB").close()


@pytest.mark.parametrize("policy", ["lake", "expandable", "caching", "stitch", "direct", "driver"])
def test_another_pool_of_this_process_is_named(large, policy):
    idle = memlake.Pool(large)
    idle.allocate("1000MiB").close()
    pool = memlake.Pool(large, policy)
    error = refusal(pool, "500MiB")
    assert (error.reason, error.binds) == ("physical", "other_pools")
    assert error.details.held_by_other_pools == 1000 * MIB
    assert "other pools of this process hold 1000 MiB of the device: trim()" in error.hint
    assert f"Other pools of this process hold 1000 MiB ({idle.policy.name} 1000 MiB)." in str(error)
    idle.trim()
    pool.allocate("500MiB").close()


def test_an_idle_pool_of_the_driver_is_named_too(large):
    idle = memlake.Pool(large, "driver")
    idle.allocate("1000MiB").close()
    assert refusal(memlake.Pool(large), "500MiB").binds == "other_pools"


@pytest.mark.needs("virtual_memory")
def test_memory_without_a_pool_is_not_a_pool(large):
    chunk = memlake.vmm.create(large, "900MiB")
    error = refusal(memlake.Pool(large), "500MiB")
    assert error.binds == "elsewhere"
    assert error.details.held_elsewhere == 900 * MIB
    assert "other pools" not in error.hint
    chunk.close()


def test_a_pool_over_two_devices_is_not_blamed_for_the_other_one(memlake_emulator):
    a, b = memlake_emulator.emulate(devices=2, memory="1GiB", backing="none")
    both = memlake.Pool([b, a])
    far = both.allocate("1000MiB")
    chunk = memlake.vmm.create(a, "800MiB")
    pool = memlake.Pool(a)
    near = pool.allocate("100MiB")
    error = refusal(pool, "600MiB")
    assert error.details.held_by_other_pools == 0
    assert error.details.held_elsewhere == 800 * MIB
    assert error.binds == "elsewhere"
    for each in (near, far, chunk):
        each.close()


def test_a_request_larger_than_the_host_is_told_the_size_of_the_host(gpu):
    pool = memlake.Pool(gpu, location="host")
    assert "the host has only" in refusal(pool, "1000TiB").hint
    pool.limit = "100MiB"
    error = refusal(pool, "200MiB")
    assert error.hint == "ask for less, or raise the pool's limit to at least 200 MiB"
    assert "raise the pool's limit" in refusal(pool, "1000TiB").hint


def test_memory_of_the_host_counts_for_a_pool_that_spills(gpu):
    error = refusal(memlake.Pool(gpu, spill="host"), "1000TiB")
    assert gpu.total_memory < error.largest_stitchable < error.asked


def test_what_could_be_stitched_is_less_than_what_was_refused(pool):
    kept = [pool.allocate("1MiB") for _ in range(30)]  # direct takes 2 MiB for each
    del kept[::2]
    errors = []
    for size in ("30MiB", "45MiB", "64MiB", "1GiB"):
        try:
            pool.allocate(size).close()
        except OutOfMemory as error:
            errors.append(error)
    assert errors
    # Only the driver knows in how many pieces the free memory of its own pools lies.
    certain = [error for error in errors if pool.policy.name != "driver" or error.reason == "physical"]
    assert all(error.largest_stitchable < error.details.rounded for error in certain)


@pytest.mark.needs("virtual_memory")
def test_the_details_are_numbers_and_the_text_is_theirs(gpu):
    error = refusal(memlake.Pool(gpu), "65MiB")
    details = error.details
    assert str(error) == details.text == details.to_text()
    assert details.text.endswith(f"Hint: {error.hint}.")
    assert (details.location, details.policy, details.page) == ("device", "lake", 2 * MIB)
    assert pickle.loads(pickle.dumps(error)).details == details
    assert dataclasses.asdict(details)["reason"] == error.reason


def test_python_and_c_say_the_same(gpu):
    library = ctypes.CDLL(str(memlake.native_library()))
    library.memlake_last_error.restype = ctypes.c_char_p
    library.memlake_pool_allocate.restype = ctypes.c_void_p
    pool = memlake.Pool(gpu, "caching", max_size="40MiB")
    kept = pool.allocate("20MiB")
    text = str(refusal(pool, "30MiB"))
    handle = ctypes.c_void_p(pool.native_handle)
    assert library.memlake_pool_allocate(handle, ctypes.c_size_t(30 * MIB), None) is None
    assert library.memlake_last_error().decode() == text
    kept.close()


@pytest.mark.parametrize("nbytes", [1, 1023, 1024, 1536, 10**6 + 1, 3 * 2**20 + 7, 10 * 2**30, 2**43 + 5])
def test_sizes_in_a_text_are_written_as_everywhere(gpu, nbytes):
    pool = memlake.Pool(gpu, "direct", limit=0)
    text = str(refusal(pool, nbytes))
    assert text.startswith(f"no memory for {format_bytes(nbytes)}")


def test_of_many_other_pools_the_largest_are_named(large):
    pools = [memlake.Pool(large, policy) for policy in ("caching", "lake", "stitch", "expandable", "caching", "lake")]
    buffers = [pool.allocate(nbytes * 20 * MIB) for nbytes, pool in enumerate(pools, 1)]
    error = refusal(memlake.Pool(large), "700MiB")
    named = "(lake 120 MiB, caching 100 MiB, expandable 80 MiB, stitch 60 MiB, and 2 more)"
    assert f"Other pools of this process hold 420 MiB {named}." in str(error)
    del buffers


@pytest.mark.parametrize("policy", ["lake", "caching", "expandable", "stitch", "direct", "driver"])
@pytest.mark.parametrize("seed", range(12))
def test_what_the_refusal_says_could_be_had_can_be_had(memlake_emulator, policy, seed):
    rng = random.Random(seed)
    (gpu,) = memlake_emulator.emulate(memory="64MiB", backing="none")
    streams = [gpu.create_stream(), gpu.create_stream(), None]
    limits = {"limit": rng.choice([None, "40MiB", "8MiB"]), "max_size": rng.choice([None, "50MiB"])}
    pool = memlake.Pool(gpu, policy, **limits)
    buffers = []
    for _ in range(rng.randrange(5, 40)):
        with contextlib.suppress(OutOfMemory):
            buffers.append(pool.allocate(rng.randrange(1, 9 * MIB), stream=rng.choice(streams)))
        if buffers and rng.random() < 0.45:
            buffers.pop(rng.randrange(len(buffers))).close()
    stream = rng.choice(streams)
    for asked in (rng.randrange(10 * MIB, 64 * MIB), 65 * MIB):
        largest = 0
        try:
            pool.allocate(asked, stream=stream).close()
        except OutOfMemory as refused:
            largest = refused.largest_stitchable
        assert largest < asked
        pool.allocate(largest, stream=stream).close()
    pool.check()


@pytest.mark.needs("virtual_memory")
def test_memory_for_which_there_are_no_addresses_is_not_promised(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="80GiB", backing="none")
    buffers, errors = [], []
    while not errors:
        pool = memlake.Pool(gpu, "expandable")
        try:
            buffers.append(pool.allocate("30MiB"))
        except OutOfMemory as error:
            errors.append(error)
    assert errors[0].reason == "addresses"
    assert errors[0].largest_stitchable < errors[0].asked


@pytest.mark.needs("virtual_memory")
def test_a_single_handle_is_not_promised_from_several_devices(memlake_emulator):
    gpus = memlake_emulator.emulate(2, memory="64MiB")
    pool = memlake.Pool(gpus)
    buffers = [pool.allocate("40MiB", single_handle=True) for _ in gpus]
    with pytest.raises(OutOfMemory, match="single handle is one chunk of one device") as refused:
        pool.allocate("40MiB", single_handle=True)
    assert refused.value.largest_stitchable == 24 * MIB
    pool.allocate("24MiB", single_handle=True).close()
    del buffers


def told_by_the_core():
    """The names of the core's list, in its order."""
    return re.findall(r"^(?:(?:FIGURE|ANSWER)\(|FACT\([^,]*, )(\w+)", LIST.read_text(), re.MULTILINE)


def documented(kind):
    """The names under "Attributes:" in a docstring."""
    _, text = kind.__doc__.split("Attributes:\n")
    named = re.findall(r"^        (\w+(?:, \w+)*): ", text, re.MULTILINE)
    return [name for names in named for name in names.split(", ")]


def disagreements(names, kind, attributes):
    """What the dataclass, its documentation or the attributes of OutOfMemory have otherwise than the core's list."""
    types = get_type_hints(kind)
    found = []
    if list(types) != names:
        found.append("the fields are not those of the list")
    if documented(kind) != names:
        found.append("the documentation is not of the list")
    if any(types.get(name) != attribute for name, attribute in attributes.items()):
        found.append("an attribute of OutOfMemory is none of the fields")
    return found


def attributes_of_the_error():
    hints = get_type_hints(OutOfMemory)
    return {name: hint for name, hint in hints.items() if name != "details"}


def test_python_tells_what_the_list_of_the_core_has(large):
    names = told_by_the_core()
    assert len(names) == len(re.findall(r"^[A-Z]+\(", LIST.read_text(), re.MULTILINE))
    assert disagreements(names, Shortage, attributes_of_the_error()) == []
    pool = memlake.Pool(large)
    told = pool._allocate(2**40, 0, None, 0)
    assert list(told) == names
    for name, hint in get_type_hints(Shortage).items():
        assert type(told[name]) is (get_origin(hint) or hint), name


def test_a_shortage_that_is_not_the_list_is_found():
    names = told_by_the_core()
    assert disagreements([*names, "largest_hole"], Shortage, {}) == [
        "the fields are not those of the list",
        "the documentation is not of the list",
    ]
    assert disagreements(names, Shortage, {"held": str}) == ["an attribute of OutOfMemory is none of the fields"]
    assert disagreements(names, Shortage, {"biggest": int}) == ["an attribute of OutOfMemory is none of the fields"]
