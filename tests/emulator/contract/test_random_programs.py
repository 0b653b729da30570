"""Random programs over plain memory, pools, streams, events, captures and graphs: every answer is the model's.

`MEMLAKE_PROGRAMS` sets how many programs each test tries.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.contract.expectations import Expectations
from emulator.contract.random_program import KINDS, RandomProgram, Step
from helpers.abi_process import add_devices
from helpers.abi_world import World

if TYPE_CHECKING:
    from helpers.abi_driver import Driver

PROGRAMS = int(os.environ.get("MEMLAKE_PROGRAMS", "80"))
GLOBAL, THREAD_LOCAL = 0, 1
NUMBER = st.integers(0, 2**16)
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), NUMBER, NUMBER, NUMBER), max_size=80)
SETTINGS = settings(
    max_examples=PROGRAMS, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, database=None
)
pytestmark = pytest.mark.emulator_only("work must wait until the program asks for it")


def run_alone(driver: Driver, profile: str, mode: int, steps: list[Step]) -> None:
    """One program on a device of its own."""
    first, count = add_devices(driver, {"streams": "manual", "profile": profile, "memory": "64MiB"})
    expect = Expectations(0, driver, is_report=False)
    world = World(driver, [first])
    try:
        RandomProgram(world, expect, profile == "strict", mode, is_alone=mode == GLOBAL).run(steps)
        problems = world.close(expect.violations) if mode == GLOBAL else []
        assert not problems, problems
    finally:
        assert driver.memlakeEmulatorCloseDevices(first, count) == 0, driver.last_error()


@pytest.mark.parametrize("profile", ["strict", "nvidia"])
@SETTINGS
@given(steps=STEPS)
def test_every_answer_of_a_random_program_is_the_models(driver: Driver, profile: str, steps: list[Step]) -> None:
    run_alone(driver, profile, GLOBAL, steps)


@pytest.mark.parametrize("profile", ["strict", "nvidia"])
@settings(SETTINGS, max_examples=max(PROGRAMS // 4, 1))
@given(programs=st.lists(STEPS, min_size=3, max_size=3))
def test_programs_of_several_threads_do_not_disturb_each_other(
    driver: Driver, profile: str, programs: list[list[Step]]
) -> None:
    failures: list[BaseException] = []

    def run(steps: list[Step]) -> None:
        try:
            run_alone(driver, profile, THREAD_LOCAL, steps)
        except BaseException as failure:  # it belongs to the test, not to the thread
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(steps,)) for steps in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
