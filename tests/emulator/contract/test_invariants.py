"""Cases 97 to 99: what holds after any sequence of calls, in a forked child, and with many threads."""

from __future__ import annotations

import os
import secrets
import threading
from typing import TYPE_CHECKING

import pytest

from emulator.contract.model import RandomWalk
from emulator.contract.programs import run_program
from helpers.abi_types import Result

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_driver import Driver
    from helpers.abi_world import World

STEPS = 400


def seeds() -> list[int]:
    """Three walks that are the same in every run, and one that never was; MEMLAKE_SEED reruns a single one."""
    if "MEMLAKE_SEED" in os.environ:
        return [int(os.environ["MEMLAKE_SEED"])]
    return [1, 2, 3, secrets.randbits(32)]


@pytest.mark.one_device_will_do
@pytest.mark.world(devices=2, peers="all")
def test_case_097_random_walk(world: World, expect: Expectations) -> None:
    """Property test: random sequence of legal calls, model vs emulator: sum of handle sizes == total - free; each VA
    page maps to what the model says."""
    for seed in seeds():
        walk = RandomWalk(world, expect, seed)
        for _ in range(STEPS):
            walk.step()
            walk.check()
        expect.that("the walk did a bit of everything", len(walk.done) == 9, "I")
        clear(world)


def clear(world: World) -> None:
    """Undoes what a walk left."""
    for address, (size, _) in list(world.mappings.items()):
        world.must("cuMemUnmap", world.unmap(address, size))
    for address, size in list(world.reservations.items()):
        world.must("cuMemAddressFree", world.address_free(address, size))
    for handle in list(world.references.elements()):
        world.must("cuMemRelease", world.release(handle))


def test_case_098_fork(driver: Driver, expect: Expectations) -> None:
    """Fork: child calls -> 3; the parent is unaffected."""
    answers = run_program("fork", driver.library)
    for call, code in answers["child"].items():
        expect(f"{call} in the child", code, Result.NOT_INITIALIZED, "I")
    for call, code in answers["parent"].items():
        expect(f"{call} in the parent afterwards", code, Result.SUCCESS, "I")
    expect.equal("the parent's bytes", answers["parent_bytes"], "written before the fork", "I")


def test_case_099_threads(world: World, expect: Expectations) -> None:
    """8 threads mapping/unmapping disjoint ranges: no error, counters consistent."""
    granule, threads, rounds, driver = world.granularity, 8, 250, world.driver
    start = world.new_reservation(threads * granule)
    handles = [world.new_chunk(granule) for _ in range(threads)]
    free = world.free_memory()
    calls = driver.ledger()["calls"] if driver.is_emulated else {}
    answers: list[int] = []
    begin = threading.Barrier(threads)

    def work(place: int) -> None:
        address = start + place * granule
        driver.cuCtxSetCurrent(world.contexts[world.device])
        begin.wait()
        for _ in range(rounds):
            answers.append(driver.cuMemMap(address, granule, 0, handles[place], 0))
            answers.append(world.access(address, granule))
            answers.append(driver.cuMemUnmap(address, granule))

    workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expect.equal("answers", {code: answers.count(code) for code in answers}, {0: 3 * threads * rounds}, "I")
    expect.equal("free memory", world.free_memory(), free, "I")
    if driver.is_emulated:
        after = driver.ledger()["calls"]
        for call in ("cuMemMap", "cuMemSetAccess", "cuMemUnmap"):
            expect.equal(f"{call} in the ledger", after[call] - calls.get(call, 0), threads * rounds, "I")
