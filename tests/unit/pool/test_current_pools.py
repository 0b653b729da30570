import asyncio
import threading

import pytest

import memlake
from helpers.processes import assert_ends_well
from memlake import ClosedError, ConfigError, InvalidFree

MIB = 2**20


@pytest.mark.needs("virtual_memory")
def test_a_device_has_one_default_pool_from_first_use_on(gpus):
    pool = memlake.default_pool(gpus[0])
    assert pool.is_default
    assert pool.reserved_mem_current == 0
    assert memlake.default_pool(gpus[0]) is pool
    assert memlake.default_pool(gpus[1]) is not pool
    assert pool.limit is None
    assert pool.policy.name == "lake"


def test_the_default_pool_grows_and_shrinks_and_cannot_be_closed(gpu):
    pool = memlake.default_pool(gpu)
    with pytest.raises(InvalidFree, match="default pool of its device"):
        pool.close()
    with pool, pool.allocate("20MiB"):
        assert pool.reserved_mem_current >= 20 * MIB
    assert pool.is_open
    pool.trim()
    assert pool.reserved_mem_current == 0
    pool.release_threshold = 0
    pool.allocate("20MiB").close()
    gpu.synchronize()
    assert pool.reserved_mem_current == 0


def test_the_default_pool_goes_with_its_device():
    (gpu,) = memlake.emulate(memory="64MiB")
    pool = memlake.default_pool(gpu)
    gpu.close()
    assert not pool.is_open
    with pytest.raises(ClosedError):
        memlake.default_pool(gpu)
    with pytest.raises(ClosedError):
        memlake.current_pool(gpu)


def test_threads_that_ask_at_once_get_the_same_default_pool(gpu):
    start = threading.Barrier(8)
    found = []

    def ask():
        start.wait()
        found.append(memlake.default_pool(gpu))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(pool) for pool in found}) == 1


def test_a_pool_that_is_set_is_current_in_all_threads_until_it_is_closed(gpu):
    pool = memlake.Pool(gpu)
    assert memlake.current_pool(gpu) is memlake.default_pool(gpu)
    memlake.set_current_pool(pool)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(memlake.current_pool(gpu)))
    thread.start()
    thread.join()
    assert seen == [pool]
    pool.close()
    assert memlake.current_pool(gpu) is memlake.default_pool(gpu)


def test_a_pool_over_two_devices_is_current_for_both(gpus):
    pool = memlake.Pool(gpus)
    memlake.set_current_pool(pool)
    assert memlake.current_pool(gpus[0]) is memlake.current_pool(gpus[1]) is pool
    memlake.set_current_pool(memlake.default_pool(gpus[1]))
    assert memlake.current_pool(gpus[0]) is pool
    assert memlake.current_pool(gpus[1]).is_default


def test_use_is_nested_and_ends_with_its_block(gpu):
    one, two = memlake.Pool(gpu), memlake.Pool(gpu)
    with memlake.use_pool(one) as used:
        assert used is one
        with memlake.use_pool(two):
            assert memlake.current_pool(gpu) is two
        assert memlake.current_pool(gpu) is one
        with pytest.raises(ZeroDivisionError), memlake.use_pool(two):
            raise ZeroDivisionError
        assert memlake.current_pool(gpu) is one
        both = memlake.use_pool(two)
        with both, both:
            assert memlake.current_pool(gpu) is two
        assert memlake.current_pool(gpu) is one
    assert memlake.current_pool(gpu).is_default


def test_use_counts_before_what_was_set_and_only_in_its_thread(gpu):
    ours, theirs = memlake.Pool(gpu), memlake.Pool(gpu)
    memlake.set_current_pool(theirs)
    seen = []
    with memlake.use_pool(ours):
        assert memlake.current_pool(gpu) is ours
        thread = threading.Thread(target=lambda: seen.append(memlake.current_pool(gpu)))
        thread.start()
        thread.join()
    assert seen == [theirs]


def test_threads_may_share_one_use(gpu):
    pool = memlake.Pool(gpu)
    use = memlake.use_pool(pool)
    both_inside = threading.Barrier(2)
    seen = []

    def work():
        with use:
            both_inside.wait()
            seen.append(memlake.current_pool(gpu) is pool)
            both_inside.wait()
        seen.append(memlake.current_pool(gpu).is_default)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 4


def test_use_decorates_functions_and_coroutines(gpu):
    pool = memlake.Pool(gpu)

    @memlake.use_pool(pool)
    def step(depth):
        """Documented."""
        return step(depth - 1) if depth else memlake.current_pool(gpu)

    @memlake.use_pool(pool)
    async def task():
        await asyncio.sleep(0)
        return memlake.current_pool(gpu)

    async def main():
        both = await asyncio.gather(task(), task())
        return [*both, memlake.current_pool(gpu)]

    assert step(2) is pool
    assert step.__doc__ == "Documented."
    assert asyncio.run(main()) == [pool, pool, memlake.default_pool(gpu)]
    with pytest.raises(ConfigError, match="is a generator"):

        @memlake.use_pool(pool)
        def steps():
            yield


def test_a_closed_pool_cannot_be_used_and_is_passed_over(gpu):
    pool = memlake.Pool(gpu)
    with memlake.use_pool(pool):
        pool.close()
        assert memlake.current_pool(gpu).is_default
    for function in (memlake.use_pool, memlake.set_current_pool):
        with pytest.raises(ClosedError):
            function(pool)
        with pytest.raises(ConfigError, match="expected a memlake Pool, got EmulatedDevice"):
            function(gpu)


def test_a_pool_that_is_closed_leaves_its_place_to_the_one_around_it(gpu):
    outer, inner = memlake.Pool(gpu), memlake.Pool(gpu)
    with memlake.use_pool(outer), memlake.use_pool(inner):
        inner.close()
        assert memlake.current_pool(gpu) is outer


def test_allocate_takes_from_the_current_pool_of_the_streams_device(gpus):
    pools = [memlake.Pool(gpu) for gpu in gpus]
    memlake.set_current_pool(pools[0])
    stream = gpus[1].create_stream()
    with memlake.use_pool(pools[1]), memlake.allocate("4MiB", stream=stream) as buffer:
        assert buffer.device == gpus[1]
        assert buffer.stream == stream
        assert pools[1].stats().num_live == 1
    with memlake.allocate(4 * MIB, device=gpus[0]):
        assert pools[0].stats().num_live == 1
    with memlake.allocate(4 * MIB, stream=gpus[0].default_stream):
        assert pools[0].stats().num_live == 1
    with pytest.raises(ConfigError, match="is no stream of"):
        memlake.allocate(1, stream=stream, device=gpus[0])


def test_without_a_device_the_first_is_meant(gpus):
    with memlake.allocate("1MiB") as buffer:
        assert buffer.device == memlake.devices()[0]  # what these tests find as libcuda.so.1 is the emulator
    assert memlake.current_pool() is memlake.default_pool()
    with pytest.raises(ConfigError, match=r"expected a memlake Device, an ordinal or a cuda\.core Device, got str"):
        memlake.default_pool("0")


# In programs of their own: in this process another name of the emulator is found as libcuda.so.1.
CURRENT_DEVICE = """
import ctypes
import memlake
driver = ctypes.CDLL(str(memlake.emulator_library()))
one, two = memlake.emulate(2, "64MiB")
nothing = ctypes.c_void_p()
contexts = [ctypes.c_void_p() for _ in range(2)]
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(contexts[0]), two.ordinal) == 0
assert driver.cuCtxCreate_v2(ctypes.byref(contexts[1]), 0, two.ordinal) == 0
assert driver.cuCtxPopCurrent_v2(ctypes.byref(nothing)) == 0
for context in contexts:
    stream = ctypes.c_void_p()
    for _ in range(2):  # the second time without a search
        assert driver.cuCtxPushCurrent_v2(context) == 0
        assert memlake.default_pool() is memlake.default_pool(two)
        with memlake.allocate("1MiB") as buffer:
            assert buffer.device == two
        with memlake.Pool(two) as pool, memlake.use_pool(pool), memlake.allocate("1MiB"):
            assert pool.stats().num_live == 1
        assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
        assert driver.cuCtxPopCurrent_v2(ctypes.byref(nothing)) == 0
        with memlake.allocate("1MiB") as buffer:  # no context is current
            assert buffer.device == one
        with memlake.allocate("1MiB", stream=stream.value) as buffer:  # the stream says where it is
            assert buffer.device == two
        try:
            memlake.allocate(1, stream=stream.value, device=one)
        except memlake.ConfigError as error:
            assert "is no stream of" in str(error)
        else:
            raise AssertionError
"""

DEVICES_BY_NAME = """
import memlake

class TheirDevice:  # as a cuda.core.Device
    def __init__(self, ordinal):
        self.device_id = ordinal

one, two = memlake.emulate(2, "64MiB")
for form in (two, two.ordinal, TheirDevice(two.ordinal)):
    with memlake.Pool(form) as pool:
        assert pool.devices == (two,)
    with memlake.allocate(100, device=form) as buffer:
        assert buffer.device == two
    assert memlake.default_pool(form).device == two
with memlake.Pool([TheirDevice(one.ordinal), two.ordinal]) as pool:
    assert pool.devices == (one, two)
for wrong, message in ((True, "an ordinal"), ("0", "an ordinal"), (None, "an ordinal"), (99, "there is no device 99")):
    try:
        memlake.Pool(wrong)
    except memlake.ConfigError as error:
        assert message in str(error)
    else:
        raise AssertionError
"""


def test_the_current_device_of_the_thread_is_meant():
    assert_ends_well(CURRENT_DEVICE)


def test_a_device_may_be_named_by_its_ordinal_or_by_another_librarys_object():
    assert_ends_well(DEVICES_BY_NAME)


def test_a_pool_that_was_set_or_closed_is_noticed_by_the_next_request(gpus):
    stream = gpus[0].create_stream()
    for form in ({"device": gpus[0]}, {"stream": stream}):
        default = memlake.default_pool(gpus[0])
        memlake.allocate(100, **form).close()
        pool = memlake.Pool(gpus[0])
        memlake.set_current_pool(pool)
        with memlake.allocate(100, **form):
            assert pool.stats().num_live == 1
        pool.close()
        with memlake.allocate(100, **form):
            assert default.stats().num_live == 1


def test_without_any_device_that_is_said():
    assert_ends_well(
        """
        import memlake
        try:
            memlake.allocate(1)
        except memlake.ConfigError as error:
            assert "no CUDA driver was found" in str(error)
        else:
            raise AssertionError
        (gpu,) = memlake.emulate(memory="64MiB")
        memlake.allocate(1).close()
        """
    )
