"""A lake that moves memory for ever needs few addresses: at most eight times the memory of its devices.

MEMLAKE_MOVES says how many chunks are moved in each test."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import pytest

import memlake
from helpers.lake_variants import lake_variants

if TYPE_CHECKING:
    from memlake import Buffer
    from memlake.emulator.pytest_plugin import EmulatorFixture

MOVES = int(os.environ.get("MEMLAKE_MOVES", "10000"))
SETTINGS: dict[str, dict[str, Any]] = {
    "one device": {"devices": 1, "memory": "512MiB"},
    "three devices": {"devices": 3, "memory": "176MiB"},
    "small granules": {"devices": 1, "memory": "512MiB", "granularity": "64KiB"},
    "large granules": {"devices": 1, "memory": "16GiB", "granularity": "512MiB"},
}
MOST_LIVE = 7


@pytest.mark.needs("virtual_memory")
def test_a_thousand_pools_of_one_process_find_addresses(memlake_emulator: EmulatorFixture) -> None:
    (gpu,) = memlake_emulator.emulate(memory="80GiB", backing="none")
    pools = [memlake.Pool(gpu) for _ in range(1000)]
    buffers = [pool.allocate("3MiB") for pool in pools]
    small = [pool.allocate("4KiB") for pool in pools]
    for pool in pools[::100]:
        assert pool.stats().policy_counters["reserved_addresses"] <= 8 * gpu.total_memory
        pool.check()
    # A pool that began late can still use the device.
    with pools[-1].allocate("60GiB") as large:
        large.fill(1, nbytes=1)
    for buffer in buffers + small:
        buffer.close()


@pytest.mark.parametrize("variant", lake_variants())
@pytest.mark.parametrize("spill", [None, "host"])
@pytest.mark.parametrize("streams", [1, 4])
@pytest.mark.parametrize("setting", SETTINGS)
def test_addresses_stay_few_however_much_is_moved(
    memlake_emulator: EmulatorFixture, setting: str, streams: int, spill: str | None, variant: str
) -> None:
    devices = memlake_emulator.emulate(**SETTINGS[setting], backing="none")
    total = sum(device.total_memory for device in devices)
    pool = memlake.Pool(list(devices), lake_variants()[variant], spill=spill)
    names = [devices[number % len(devices)].create_stream() for number in range(streams)]
    rng = random.Random(11)
    live: list[Buffer] = []
    moved = 0
    while moved < MOVES:
        for _ in range(200):
            size = int(total * rng.uniform(0.003, 0.18))
            # With host memory nothing is refused, and all would be live there.
            is_full = spill is not None and sum(buffer.nbytes for buffer in live) + size > 0.97 * total
            while live and (len(live) > MOST_LIVE or is_full):
                live.pop(rng.randrange(len(live))).close()
                is_full = is_full and sum(buffer.nbytes for buffer in live) + size > 0.97 * total
            try:
                live.append(pool.allocate(size, stream=rng.choice(names)))
            except memlake.OutOfMemory:
                live.pop(rng.randrange(len(live))).close()
        counters = pool.stats().policy_counters
        assert counters["moved_chunks"] > moved
        moved = counters["moved_chunks"]
        assert counters["reserved_addresses"] <= 8 * total, f"after {moved} moves"
    pool.check()
    for buffer in live:
        buffer.close()
    for device in devices:
        device.synchronize()
    pool.trim()
    assert pool.stats().policy_counters["reserved_addresses"] == 0
    pool.close()
