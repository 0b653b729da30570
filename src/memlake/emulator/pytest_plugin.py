"""A pytest fixture that runs a test on the emulated CUDA driver.

The fixture is a part of memlake's package and needs no configuration. A test run that does not use the fixture does not
load the core::

    def test_my_allocator(memlake_emulator):
        (gpu,) = memlake_emulator.emulate(memory="1GiB")
        my_allocator.run(device=gpu.ordinal)          # code that loads libcuda.so.1 finds the emulator
        assert memlake_emulator.ledger().held(gpu) == 0

When the test ends, the fixture closes its devices. It fails the test if the code violated the driver's contract, that
is, made a call that would crash a real driver or corrupt its memory. A test that violates the contract on purpose calls
``memlake_emulator.take_violations()``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlake.emulator.driver_ledger import Incident, Ledger
    from memlake.emulator.emulated_device import EmulatedDevices

__all__ = ["EmulatorFixture", "memlake_emulator"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--memlake-hardware NAME``: the machine that `memlake.emulate` makes in tests that name none."""
    parser.getgroup("memlake").addoption(
        "--memlake-hardware",
        metavar="NAME",
        help="emulated GPUs lack what a machine of this name lacks, for instance wsl2 or no-vmm (MEMLAKE_HARDWARE)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Passes the option on, also to processes that tests start."""
    name = config.getoption("--memlake-hardware", default=None)
    if name:
        os.environ["MEMLAKE_HARDWARE"] = name


class EmulatorFixture:
    """The object that a test gets: it makes emulated devices, closes them after the test, and reads the ledger."""

    def __init__(self) -> None:
        self._groups: list[EmulatedDevices] = []
        self._seen = _last_violation(self.ledger())

    def emulate(self, *args: Any, **options: Any) -> EmulatedDevices:
        """Makes emulated devices as `memlake.emulate` does. They are closed when the test ends."""
        from memlake.emulator.emulated_device import emulate

        devices = emulate(*args, **options)
        self._groups.append(devices)
        return devices

    def ledger(self) -> Ledger:
        """Returns the ledger as of now, as `memlake.emulator.ledger` does."""
        from memlake.emulator.driver_ledger import ledger

        return ledger()

    def take_violations(self) -> list[Incident]:
        """Returns the contract violations since the start of the test or the last call. They do not fail the test."""
        new = [incident for incident in self.ledger().violations if incident.sequence > self._seen]
        self._seen = max((incident.sequence for incident in new), default=self._seen)
        return new

    def close(self) -> None:
        """Closes the devices that are still open.

        A device whose memory has a live NumPy view stays open: pytest keeps the variables of a failed test.
        """
        for device in chain.from_iterable(self._groups):
            if device.is_open:
                with suppress(BufferError):
                    device.close()


@pytest.fixture
def memlake_emulator() -> Iterator[EmulatorFixture]:
    """Emulated CUDA devices for one test, seen by the whole process; see docs/guides/testing_without_a_gpu.md."""
    _put_emulator_under_process()
    fixture = EmulatorFixture()
    yield fixture
    # Violations first: closing a device waits for its queued work and would hide unfinished work.
    violations = fixture.take_violations()
    fixture.close()
    if violations:
        sentences = "\n".join(f"  {incident}" for incident in violations)
        pytest.fail(f"the code under test violated the CUDA driver's contract:\n{sentences}", pytrace=False)


def _put_emulator_under_process() -> None:
    """Makes every later dlopen("libcuda.so.1") of this process find the emulator."""
    import ctypes
    from pathlib import Path

    from memlake.libraries import cuda_library_directory

    ctypes.CDLL(str(Path(cuda_library_directory()) / "libcuda.so.1"))
    found = ctypes.CDLL("libcuda.so.1")
    if not hasattr(found, "memlakeEmulatorLedger"):
        pytest.fail(
            "this process has loaded a real libcuda.so.1 already, so code under test would use it; "
            "run pytest without it, or run: memlake emulate -- pytest ...",
            pytrace=False,
        )


def _last_violation(ledger: Ledger) -> int:
    return max((incident.sequence for incident in ledger.violations), default=-1)
