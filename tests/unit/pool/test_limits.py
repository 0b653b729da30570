import pickle
import sys

import pytest

import memlake
from memlake import OutOfMemory

MIB = 2**20


def test_a_limit_is_in_bytes_or_a_share_and_may_be_changed(gpu):
    with memlake.Pool(gpu, "caching", limit="50%") as pool:
        assert pool.limit == pool.stats().limit == 32 * MIB
        with pytest.raises(OutOfMemory) as caught:
            pool.allocate("40MiB")
        assert caught.value.reason == "limit"
        assert caught.value.limit == 32 * MIB
        pool.limit = "48MiB"
        pool.allocate("40MiB").close()
        pool.limit = None
        assert pool.stats().limit is None
        pool.limit = 10
        pool.allocate("40MiB").close()  # what is held stays
        with pytest.raises(OutOfMemory):
            pool.allocate("48MiB")
        with pytest.raises(memlake.ConfigError):
            pool.limit = "-5"
        assert pool.limit == 10


def test_max_size_and_the_memory_fraction_are_limits_too(gpu):
    with memlake.Pool(gpu, "caching", max_size="16MiB", limit="32MiB") as pool:
        assert (pool.max_size, pool.limit, pool.stats().limit) == (16 * MIB, 32 * MIB, 16 * MIB)
        with pytest.raises(OutOfMemory):
            pool.allocate("20MiB")
    with memlake.Pool(gpu, memlake.policies.CachingOptions(memory_fraction=0.25)) as pool:
        assert pool.stats().limit == 16 * MIB
        with pytest.raises(OutOfMemory):
            pool.allocate("20MiB")


def test_callbacks_are_asked_before_a_request_is_refused(pool):
    kept = [pool.allocate("10MiB") for _ in range(4)]
    asked = []

    def free_one(nbytes):
        asked.append(nbytes)
        if not kept:
            return False
        kept.pop().close()
        return True

    pool.on_failure = (lambda nbytes: None, free_one)
    buffer = pool.allocate("45MiB")
    assert len(asked) == (4 if pool.policy.name != "direct" else 3) or len(kept) < 4
    assert set(asked) == {45 * MIB}
    buffer.close()
    asked.clear()
    with pytest.raises(OutOfMemory):
        pool.allocate("65MiB")
    assert asked[-1] == 65 * MIB


def test_a_callback_that_raises_is_heard(gpu):
    def complain(nbytes):
        raise LookupError(nbytes)

    with memlake.Pool(gpu, on_failure=complain) as pool, pytest.raises(LookupError):
        pool.allocate("65MiB")


def test_high_is_told_when_held_crosses_the_mark(gpu):
    told = []
    with memlake.Pool(gpu, "caching", on_high=("30MiB", lambda pool: told.append(pool.stats().held))) as pool:
        first = pool.allocate("20MiB")
        assert told == []
        second = pool.allocate("20MiB")
        assert told == [40 * MIB]
        third = pool.allocate("20MiB")
        assert len(told) == 1  # it is still high
        for buffer in (first, second, third):
            buffer.close()
        pool.trim()
        pool.reserve("40MiB")
        assert told == [40 * MIB, 40 * MIB]


def test_an_exception_in_on_high_does_not_fail_the_request(gpu, monkeypatch, caplog):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)

    def fail(pool):
        raise LookupError("in on_high")

    with memlake.Pool(gpu, on_high=("10MiB", fail)) as pool:
        with pool.allocate("20MiB") as buffer:
            assert buffer.nbytes == 20 * MIB
        pool.trim()
        pool.reserve("20MiB")
    assert [str(one.exc_value) for one in unraisable] == ["in on_high"] * 2
    assert [one.object for one in unraisable] == [fail] * 2
    assert unraisable[0].exc_traceback.tb_frame.f_code.co_name == "call"
    assert [(record.name, record.levelname) for record in caplog.records] == [("memlake.pool", "ERROR")] * 2


def test_running_out_explains_itself(gpu):
    pool = memlake.Pool(gpu, "caching")
    stream = gpu.create_stream()
    kept = [pool.allocate("15MiB", stream=s) for s in (stream, None, stream)]
    kept.pop(1).close()
    with pytest.raises(OutOfMemory) as caught:
        pool.allocate("60MiB")
    error = caught.value
    assert error.asked == 60 * MIB
    assert error.held == error.live + error.pending + error.free
    assert error.largest_contiguous <= error.free
    assert error.largest_contiguous <= error.largest_stitchable < error.asked
    assert error.pending_on == {}
    assert error.tried[0].startswith("a new segment (the driver has no memory)")
    assert error.reason == "physical"
    assert error.hint
    text = str(error)
    for part in ("no memory for 60 MiB", "32 MiB live", "Tried:", "Hint:"):
        assert part in text
    assert isinstance(error, MemoryError)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.details) == (text, error.details)
    with pytest.raises(AttributeError):
        error.nonsense  # noqa: B018
    pool.check()


def test_scattered_memory_is_called_by_its_name(gpu):
    pool = memlake.Pool(gpu, "caching")
    kept = [pool.allocate("2MiB") for _ in range(30)]  # three segments of 20 MiB
    for buffer in kept[1::2]:
        buffer.close()
    with pytest.raises(OutOfMemory) as caught:
        pool.allocate("15MiB")
    assert caught.value.reason == "contiguous"
    assert "in one piece" in caught.value.hint


def test_a_request_beyond_the_device_is_called_by_its_name(pool):
    with pytest.raises(OutOfMemory, match="the device has only 64 MiB in all"):
        pool.allocate("1TiB")
    assert pool.stats().num_ooms == 1
    assert pool.snapshot().segments == ()


def test_others_on_the_device_are_named(gpu):
    with (
        memlake.Pool(gpu).allocate("40MiB"),
        pytest.raises(OutOfMemory, match="other pools of this process hold 40 MiB"),
    ):
        memlake.Pool(gpu).allocate("40MiB")


def test_high_is_told_again_whenever_held_was_below_the_mark(gpu):
    for policy in ("lake", "caching", "expandable", "direct"):
        told = []
        with memlake.Pool(
            gpu, policy, on_high=("30MiB", lambda pool, told=told: told.append(pool.stats().held))
        ) as pool:
            for count in (1, 2, 3):
                pool.allocate("40MiB").close()
                pool.trim()
                assert len(told) == count, policy


def test_a_callback_that_always_says_try_again_is_not_asked_for_ever(pool):
    asked = []
    pool.on_failure = (lambda nbytes: asked.append(nbytes) or True,)
    with pytest.raises(OutOfMemory):
        pool.allocate("65MiB")
    assert 1 <= len(asked) <= 3

    def change_the_limit(nbytes):
        asked.append(nbytes)
        pool.limit = (pool.limit or 2**30) - 1
        return True

    asked.clear()
    pool.on_failure = (change_the_limit,)
    with pytest.raises(OutOfMemory):
        pool.allocate("65MiB")
    assert len(asked) <= 100


def test_the_hint_never_names_the_policy_in_use_as_the_way_out(pool):
    kept = [pool.allocate("1MiB") for _ in range(30)]
    del kept[::2]
    with pytest.raises(OutOfMemory) as caught:
        [pool.allocate("35MiB") for _ in range(3)]
    assert f"use the policy {pool.policy.name}" not in caught.value.hint
    assert f"the policy {pool.policy.name} moves" not in caught.value.hint
    assert caught.value.details.policy == pool.policy.name


def test_a_request_that_needs_more_whole_pages_than_there_are_says_so(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="1GiB", backing="none")
    with pytest.raises(OutOfMemory) as caught:
        memlake.Pool(gpu, "expandable").allocate("1GiB")
    assert caught.value.reason == "pages"
    assert "new memory in multiples of 20 MiB" in caught.value.hint
    assert "the policy lake" in caught.value.hint
    memlake.Pool(gpu).allocate("1GiB").close()


@pytest.mark.parametrize("policy", ["lake", "expandable"])
def test_streams_that_come_and_go_do_not_use_up_the_addresses(memlake_emulator, policy):
    (gpu,) = memlake_emulator.emulate(memory="80GiB", backing="none")
    with memlake.Pool(gpu, policy) as pool:
        for _ in range(400):
            with gpu.create_stream() as stream:
                pool.allocate(1000, stream=stream).close()
        pool.check()


def test_too_many_streams_with_live_buffers_run_out_of_addresses_and_say_so(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="80GiB", backing="none")
    pool = memlake.Pool(gpu, "expandable")
    streams = [gpu.create_stream() for _ in range(400)]
    kept = []
    with pytest.raises(OutOfMemory) as caught:
        kept.extend((stream, pool.allocate(1000, stream=stream)) for stream in streams)
    assert caught.value.reason == "addresses"
    assert "fewer streams" in caught.value.hint
    assert pool.stats().num_ooms == 1
    pool.check()
    kept.pop()[1].close()
    pool.trim()
    pool.allocate(1000, stream=streams[-1]).close()


def test_stitch_says_why_scattered_memory_could_not_be_stitched(gpu):
    pool = memlake.Pool(gpu, "stitch")
    kept = [pool.allocate("1MiB") for _ in range(60)]  # two to a chunk
    for buffer in kept[1::2]:
        buffer.close()
    with pytest.raises(OutOfMemory) as caught:
        pool.allocate("20MiB")
    assert caught.value.reason == "contiguous"
    assert "chunks that are partly in use" in caught.value.hint
    assert "the policy lake" not in caught.value.hint  # it cannot move halves of chunks either
