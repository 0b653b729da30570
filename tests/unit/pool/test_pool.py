import gc

import pytest

import memlake
from memlake import ClosedError, ConfigError, InvalidFree, OutOfMemory
from memlake.policies import CachingOptions, DirectOptions, ExpandableOptions, LakeOptions

MIB = 2**20


def test_a_pool_takes_a_device_or_a_list_of_one(gpu):
    assert memlake.Pool(gpu).device is gpu
    assert memlake.Pool([gpu]).devices == (gpu,)
    with memlake.emulate(memory="64MiB") as one:
        assert memlake.Pool(one).devices == tuple(one)


@pytest.mark.needs("virtual_memory")
def test_the_default_policy_is_lake(gpu):
    assert memlake.Pool(gpu).policy == LakeOptions()


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("caching", CachingOptions()),
        ("direct", DirectOptions()),
        ("expandable_segments:True,max_split_size_mb:128", ExpandableOptions(max_split_size="128MiB")),
        (CachingOptions(memory_fraction=0.5), CachingOptions(memory_fraction=0.5)),
    ],
)
def test_a_policy_is_a_name_a_configuration_or_options(gpu, policy, options):
    pool = memlake.Pool(gpu, policy=policy)
    assert pool.policy == options
    pool.allocate(1).close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": "lak"}, "known: .*expandable"),
        ({"policy": 5}, "policy"),
        ({"limit": "101%"}, "more than the whole"),
        ({"limit": -1}, "negative"),
        ({"max_size": "x"}, "max_size"),
        ({"initial_size": -1}, "initial_size"),
        ({"release_threshold": "x"}, "release_threshold"),
        ({"allocation_type": "managed"}, "driver migrates"),
        ({"allocation_type": "device"}, '"pinned" is memory of the device'),
        ({"allocation_type": "unpinned"}, "must be 'pinned'"),
        ({"handle_type": "posix_fd", "spill": "host"}, "cannot spill"),
        ({"location": "moon"}, "location must be"),
        ({"location": "host", "policy": "stitch"}, "location='host' needs the policy \"lake\""),
        ({"location": "host", "spill": "host"}, "on the host already"),
        ({"handle_type": "win32"}, "Windows"),
        ({"handle_type": "win32_kmt"}, "Windows"),
        ({"handle_type": "fd"}, "posix_fd"),
        ({"handle_type": "posix_fd", "location": "host"}, "only memory of devices"),
        ({"placement": "near", "policy": "caching"}, "several devices"),
        ({"placement": "anywhere"}, "placement must be"),
        ({"spill": "disk"}, "spill must be"),
        ({"spill": "host", "policy": "caching"}, "spill='host' needs the policy \"lake\""),
        ({"spill": "host", "policy": "direct"}, 'needs the policy "lake"'),
        ({"on_failure": 3}, "on_failure"),
        ({"on_failure": [3]}, "on_failure"),
        ({"on_high": 3}, "on_high"),
        ({"on_high": (3, 4)}, "cannot be called"),
        ({"on_high": ("x", print)}, "on_high"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(gpu, arguments, message):
    with pytest.raises(ConfigError, match=message):
        memlake.Pool(gpu, **arguments)


def test_the_handle_type_none_is_no_handle_type(gpu):
    with memlake.Pool(gpu, handle_type="none", spill="host") as pool:
        assert pool.handle_type is None
        with pool.allocate("2MiB") as buffer:
            assert not buffer.is_shareable
    with memlake.Pool(gpu, "caching", handle_type="none") as pool, pool.allocate("2MiB", shareable=True) as buffer:
        assert buffer.is_shareable


@pytest.mark.parametrize("devices", [[], None, "cuda:0", ["a"]])
def test_a_pool_needs_a_device(devices):
    with pytest.raises(ConfigError, match=r"needs a device|expected a memlake Device"):
        memlake.Pool(devices)


@pytest.mark.parametrize("policy", ["caching", "expandable", "direct"])
def test_several_devices_need_the_policy_lake(gpus, policy):
    with pytest.raises(ConfigError, match=f'a pool over 2 devices needs the policy "lake"; {policy!r} knows one'):
        memlake.Pool(gpus, policy)
    assert memlake.Pool(gpus).devices == tuple(gpus)


def test_a_device_cannot_be_in_a_pool_twice(gpu):
    with pytest.raises(ConfigError, match="one is there twice"):
        memlake.Pool([gpu, gpu])


def test_devices_that_cannot_reach_each_other_cannot_share_a_pool():
    with memlake.emulate(2, memory="64MiB", peers="none") as gpus, pytest.raises(ConfigError, match="cannot reach"):
        memlake.Pool(gpus)


def test_freed_memory_is_used_again(gpu):
    for policy in ("caching", "expandable"):
        pool = memlake.Pool(gpu, policy)
        with pool.allocate("3MiB") as first:
            place = first.ptr
        calls = pool.stats().driver_calls
        assert pool.allocate("3MiB").ptr == place
        assert pool.stats().driver_calls == calls
        pool.close()


def test_the_direct_policy_keeps_nothing(gpu):
    pool = memlake.Pool(gpu, "direct")
    pool.allocate("3MiB").close()
    assert pool.stats().held == 0
    with pytest.raises(ConfigError, match="keeps no memory"):
        pool.reserve(MIB)


def test_a_pool_cannot_be_closed_under_live_buffers(pool):
    buffer = pool.allocate(100)
    with pytest.raises(InvalidFree, match="1 live buffer"):
        pool.close()
    assert pool.is_open
    buffer.close()
    pool.close()
    assert not pool.is_open
    with pytest.raises(InvalidFree, match="closed already"):
        pool.close()


def test_a_closed_pool_is_refused_everywhere(pool):
    pool.allocate(1).close()
    pool.close()
    assert "closed" in repr(pool)
    for use in (
        lambda: pool.allocate(1),
        lambda: pool.allocate("1MiB"),
        lambda: pool.trim(),
        lambda: pool.stats(),
        lambda: pool.snapshot(),
        lambda: pool.check(),
        lambda: pool.reset_peaks(),
        lambda: setattr(pool, "limit", 5),
        lambda: pool.record("x.npz"),
    ):
        with pytest.raises(ClosedError, match="closed"):
            use()
    assert pool.limit is None


def test_a_closed_pool_has_given_everything_back(pool, gpu):
    pool.allocate("5MiB").close()
    pool.allocate(1).close()
    pool.close()
    assert gpu.free_memory == gpu.total_memory
    assert gpu.ledger().chunks == ()
    assert gpu.ledger().reservations == ()


def test_a_with_block_closes(gpu):
    with memlake.Pool(gpu) as pool:
        pool.allocate(5).close()
    assert not pool.is_open


def test_a_dropped_pool_lives_until_its_last_buffer_is_gone(gpu):
    pool = memlake.Pool(gpu)
    buffer = pool.allocate("4MiB")
    del pool
    gc.collect()
    buffer.fill(9)
    assert buffer.numpy()[-1] == 9
    gc.collect()
    buffer.close()
    del buffer
    assert gpu.free_memory == gpu.total_memory


def test_a_closed_device_ends_its_pools(gpu, pool):
    buffer = pool.allocate(100)
    gpu.close()
    assert not pool.is_open
    with pytest.raises(ClosedError):
        pool.allocate(100)
    buffer.close()
    del buffer


def test_memory_is_taken_in_advance(gpu):
    for policy in ("caching", "expandable"):
        with memlake.Pool(gpu, policy, initial_size="40MiB") as pool:
            held = pool.stats().held
            assert 40 * MIB <= held <= 42 * MIB or policy == "expandable"
            calls = pool.stats().driver_calls
            with pool.allocate("40MiB"):
                assert pool.stats().driver_calls == calls
            pool.reserve("40MiB")
            assert pool.stats().held == held
            with pytest.raises(OutOfMemory):
                pool.reserve("65MiB")
        with pytest.raises(OutOfMemory):
            memlake.Pool(gpu, policy, initial_size="65MiB")
        assert gpu.free_memory == gpu.total_memory


def test_trim_gives_back_what_is_free(gpu):
    for policy in ("caching", "expandable"):
        with memlake.Pool(gpu, policy) as pool:
            kept, gone = pool.allocate("20MiB"), pool.allocate("20MiB")
            gone.close()
            before = pool.stats().held
            assert pool.trim(keep="64MiB") == 0
            assert pool.trim() == before - pool.stats().held > 0
            assert pool.stats().live == pool.stats().held == 20 * MIB
            pool.check()
            kept.close()


def test_trim_keeps_what_is_asked_for(gpu):
    with memlake.Pool(gpu, "expandable") as pool:
        pool.allocate("60MiB").close()
        pool.trim(keep="30MiB")
        assert pool.stats().held == 40 * MIB  # whole pages of 20 MiB
        pool.check()


def test_check_says_nothing_when_all_is_well(pool):
    pool.allocate(100)
    pool.check()


def test_the_error_in_a_with_block_is_the_one_to_see(gpu):
    kept = []

    def fail(pool):
        kept.append(pool.allocate(5))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), memlake.Pool(gpu) as pool:
        fail(pool)
    assert pool.is_open
    kept.pop().close()
    pool.close()
    with pytest.raises(InvalidFree, match="live buffers"), memlake.Pool(gpu) as pool:
        kept.append(pool.allocate(5))
