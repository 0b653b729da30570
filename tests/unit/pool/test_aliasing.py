"""The levels of aliasing: what a device allows, what a pool uses, and what happens when a driver refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import memlake
from memlake import emulator
from memlake.policies import LakeOptions
from memlake.trace import load_example

if TYPE_CHECKING:
    from memlake import Buffer, EmulatedDevice, Pool
    from memlake.emulator.pytest_plugin import EmulatorFixture

LEVELS = ["none", "whole", "prefix"]
MIB = 2**20


def emulate(emulator: EmulatorFixture, level: str, **settings: object) -> EmulatedDevice:
    return emulator.emulate(memory="256MiB", backing="none", aliasing=level, **settings)[0]


def scattered(pool: Pool) -> list[Buffer]:
    """Blocks of 7 MiB in chunks of 10 MiB, so that they do not end where chunks end. Every other block is freed."""
    for size in (40 * MIB, 7 * MIB):
        buffers: list[Buffer] = []
        while True:
            try:
                buffers.append(pool.allocate(size))
            except memlake.OutOfMemory:
                break
        for buffer in buffers[:: 1 if size > 7 * MIB else 2]:
            buffer.close()
    return buffers[1::2]


def take_most(pool: Pool) -> int:
    """The largest request that the pool serves, in MiB."""
    for size in range(256, 0, -1):
        try:
            pool.allocate(size * MIB).close()
        except memlake.OutOfMemory:
            continue
        return size
    return 0


@pytest.mark.needs("virtual_memory")
@pytest.mark.parametrize("level", LEVELS)
def test_auto_is_what_the_emulated_device_allows(memlake_emulator: EmulatorFixture, level: str) -> None:
    with memlake.Pool(emulate(memlake_emulator, level)) as pool:
        assert pool.stats().aliasing == level
        assert pool.stats().to_dict()["policy_counters"]["aliasing"] == level


@pytest.mark.needs("shared_bytes")
def test_a_pool_of_several_devices_uses_the_lowest_level(memlake_emulator: EmulatorFixture) -> None:
    first, second = memlake_emulator.emulate(devices=2, memory="256MiB", aliasing="whole")
    with memlake.Pool([first, second]) as pool:
        assert pool.stats().aliasing == "whole"


def test_a_policy_without_the_option_has_no_level(memlake_emulator: EmulatorFixture) -> None:
    with memlake.Pool(emulate(memlake_emulator, "prefix"), "caching") as pool:
        assert pool.stats().aliasing is None


@pytest.mark.parametrize("allowed", LEVELS)
@pytest.mark.parametrize("wanted", LEVELS)
def test_a_driver_that_refuses_lowers_the_level_and_the_request_is_served(
    memlake_emulator: EmulatorFixture, allowed: str, wanted: str
) -> None:
    with memlake.Pool(emulate(memlake_emulator, allowed), LakeOptions(aliasing=allowed)) as pool:
        kept = scattered(pool)
        expected = take_most(pool)
        for buffer in kept:
            buffer.close()
    with memlake.Pool(emulate(memlake_emulator, allowed), LakeOptions(aliasing=wanted)) as pool:
        kept = scattered(pool)
        most = take_most(pool)
        level = min(LEVELS.index(allowed), LEVELS.index(wanted))
        assert LEVELS.index(pool.stats().aliasing or "") == level
        assert most >= expected or LEVELS.index(wanted) < LEVELS.index(allowed)
        pool.check()
        for buffer in kept:
            buffer.close()


def test_stitch_does_without_views_where_a_handle_can_be_mapped_once(memlake_emulator: EmulatorFixture) -> None:
    gpu = emulate(memlake_emulator, "none")
    with memlake.Pool(gpu, "stitch") as pool:
        buffers = [pool.allocate("8MiB") for _ in range(32)]
        for buffer in buffers[::2]:
            buffer.close()
        for _ in range(2):
            with pool.allocate("100MiB"):  # 128 MiB are free, nowhere 16 of them side by side
                assert pool.stats().policy_counters["stitched_views"] == 0
        assert gpu.features["second_mapping"].refusals == 1  # the second request does not try it again
        assert not gpu.features["second_mapping"].has
        pool.check()
        for buffer in buffers[1::2]:
            buffer.close()


@pytest.mark.needs("virtual_memory")
def test_a_higher_level_gathers_more(memlake_emulator: EmulatorFixture) -> None:
    most = []
    for level in LEVELS:
        with memlake.Pool(emulate(memlake_emulator, level)) as pool:
            kept = scattered(pool)
            most.append(take_most(pool))
            for buffer in kept:
                buffer.close()
    assert most[0] <= most[1] <= most[2]
    assert most[0] < most[2]


def test_a_replay_uses_no_aliasing_unless_told() -> None:
    trace = load_example("train_moe")
    for policy, level in (("lake", "none"), ("lake,aliasing:prefix", "prefix"), ("caching", None)):
        result = memlake.replay(trace[:2000], policy, "80GiB")
        assert result.aliasing == level
        assert result.to_json()["aliasing"] == level


def test_a_wrong_level_is_refused_with_the_levels() -> None:
    with pytest.raises(memlake.ConfigError, match="auto, none, whole or prefix, got 'some'"):
        LakeOptions(aliasing="some")
    with pytest.raises(memlake.ConfigError, match="auto, none, whole or prefix"):
        memlake.policy("lake,aliasing:some")


@pytest.mark.parametrize("level", LEVELS)
def test_bytes_left_over_of_moved_chunks_wait_for_the_work_on_them(
    memlake_emulator: EmulatorFixture, level: str
) -> None:
    (gpu,) = memlake_emulator.emulate(memory="64MiB", streams="manual")
    host = memlake.Pool(gpu, location="host")
    with memlake.Pool(gpu, LakeOptions(aliasing=level)) as pool:
        first, second, third = (gpu.create_stream() for _ in range(3))
        buffers = [pool.allocate("8MiB", stream=first) for _ in range(8)]
        seen = [host.allocate("8MiB") for _ in range(4)]
        for buffer in buffers:
            buffer.fill(1, stream=first)
        first.sync()
        for buffer, copy in zip(buffers[::2], seen, strict=True):
            buffer.copy_to(copy, stream=first)
            buffer.close()
        third.wait(second)  # before the request below, so it says nothing about the chunks that the request moves
        most = pool.allocate("27MiB", stream=second)
        rest = pool.allocate("4MiB", stream=third)
        rest.fill(7, stream=third)
        emulator.step(third, 50)  # as far as its waits let it
        for stream in (first, second, third):
            stream.sync()
        for copy in seen:
            assert copy.numpy().min() == copy.numpy().max() == 1
            copy.close()
        for buffer in (most, rest, *buffers[1::2]):
            buffer.close()
    host.close()
