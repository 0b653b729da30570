"""The driver refuses to take something back once. The pool keeps it, counts it, and gives it back later."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import memlake
from memlake import MemlakeError, emulator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlake import EmulatedDevice, Pool
    from memlake.emulator.pytest_plugin import EmulatorFixture

MIB = 2**20
UNKNOWN = 999
CALLS = {
    "lake": ("cuMemUnmap", "cuMemRelease"),
    "expandable": ("cuMemUnmap", "cuMemRelease", "cuMemAddressFree"),
    "stitch": ("cuMemUnmap", "cuMemRelease"),
    "caching": ("cuMemFree",),
}


@pytest.fixture
def gpu(memlake_emulator: EmulatorFixture) -> EmulatedDevice:
    return memlake_emulator.emulate(memory="256MiB")[0]


@pytest.fixture(autouse=True)
def _undo_failures_are_reported_only() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def fill_and_free(pool: Pool) -> None:
    for buffer in [pool.allocate(20 * MIB) for _ in range(4)]:
        buffer.close()


@pytest.mark.parametrize(("policy", "call"), [(policy, call) for policy, calls in CALLS.items() for call in calls])
def test_memory_whose_release_fails_once_is_held_and_released_by_the_next_trim(
    gpu: EmulatedDevice, policy: str, call: str
) -> None:
    pool = memlake.Pool(gpu, policy)
    fill_and_free(pool)
    with memlake.driver.failing(gpu, call=call, code=UNKNOWN), suppress(MemlakeError):
        pool.trim()
    assert pool.stats().held == emulator.ledger().held(gpu)
    pool.check()
    pool.trim()
    assert pool.stats().held == emulator.ledger().held(gpu) == 0
    pool.check()
    fill_and_free(pool)
    pool.close()
    assert emulator.ledger().held(gpu) == 0


@pytest.mark.parametrize("policy", ["lake", "expandable", "stitch"])
def test_what_could_not_be_released_counts_against_the_limit(gpu: EmulatedDevice, policy: str) -> None:
    pool = memlake.Pool(gpu, policy, limit="80MiB")
    fill_and_free(pool)
    with memlake.driver.failing(gpu, call="cuMemRelease", code=UNKNOWN):
        pool.trim()
    left = pool.stats().held
    assert left > 0
    core = gpu._core.driver
    for nth in range(1, 40):  # every attempt to release it fails, too
        core.fail("cuMemRelease", nth, UNKNOWN)
    try:
        with suppress(memlake.OutOfMemory):
            pool.allocate(80 * MIB).close()
        assert emulator.ledger().held(gpu) <= 80 * MIB
    finally:
        core.clear_faults()
    pool.allocate(80 * MIB).close()
    assert emulator.ledger().held(gpu) <= 80 * MIB


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("policy", ["lake", "expandable", "stitch"])
def test_a_mapping_that_could_not_be_undone_does_not_keep_the_pool_from_growing(
    gpu: EmulatedDevice, policy: str, nth: int
) -> None:
    pool = memlake.Pool(gpu, policy)
    with pool.allocate(30 * MIB):
        core = gpu._core.driver
        core.fail("cuMemSetAccess", nth, UNKNOWN)
        core.fail("cuMemUnmap", 1, UNKNOWN)
        with suppress(MemlakeError):
            pool.allocate(40 * MIB).close()
        core.clear_faults()
        for _ in range(6):
            pool.allocate(40 * MIB).close()
        pool.check()
        assert pool.stats().held == emulator.ledger().held(gpu)


def test_an_undo_call_that_violates_the_contract_is_shown(gpu: EmulatedDevice) -> None:
    """A ResourceWarning would be ignored by default, and may be ignored by a test."""
    from memlake.ownership.undo_failures import _warn

    with pytest.warns(RuntimeWarning, match="cuMemUnmap answered 719: in use"):
        _warn("cuMemUnmap", 719, "in use", True)
