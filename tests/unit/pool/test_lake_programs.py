"""Random programs on lakes over emulated devices of odd granularity. Their memory is stamped, so that a byte that is
lost or used twice is seen. Everything depends on the seed alone: streams run when the program lets them run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import memlake
from helpers.driver_memory import nothing_is_left
from helpers.lake_program import RandomProgram
from helpers.lake_variants import lake_variants

if TYPE_CHECKING:
    from memlake.emulator.pytest_plugin import EmulatorFixture

MEMORY = {"64KiB": "48MiB", "2MiB": "160MiB", "512MiB": "8GiB"}
"""The memory of each device by its granularity."""
STEPS = 400


def seeds() -> list[int]:
    """MEMLAKE_SEED runs a single program again; MEMLAKE_PROGRAMS runs so many of each kind."""
    if "MEMLAKE_SEED" in os.environ:
        return [int(os.environ["MEMLAKE_SEED"])]
    return list(range(1, 1 + int(os.environ.get("MEMLAKE_PROGRAMS", "1"))))


@pytest.mark.parametrize("variant", lake_variants())
@pytest.mark.parametrize("spill", [None, "host"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("granularity", MEMORY)
def test_a_random_program_loses_no_byte(
    memlake_emulator: EmulatorFixture, granularity: str, count: int, spill: str | None, variant: str
) -> None:
    moved = spilled = refused = read = 0
    for seed in seeds():
        devices = memlake_emulator.emulate(count, MEMORY[granularity], granularity=granularity, streams="manual")
        with nothing_is_left():
            placement = ("fill", "balance", "near")[seed % 3]
            pool = memlake.Pool(list(devices), lake_variants()[variant], spill=spill, placement=placement)
            program = RandomProgram(pool, devices, seed)
            program.run(STEPS)
            stats = pool.stats()
            program.finish()
        moved += stats.policy_counters["moved_chunks"]
        spilled += stats.held_on_host_peak
        refused += program.refused
        read += program.words_read
        devices.close()
    # The programs came to the budget and moved memory; else they would say nothing.
    assert moved > 0
    assert read > 0
    assert refused > 0 if spill is None else spilled > 0
