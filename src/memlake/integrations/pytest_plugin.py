"""A pytest fixture that puts the emulated CUDA driver under a test.

It comes with ``pip install memlake``; nothing has to be configured, and a run that does not use it pays nothing::

    def test_my_allocator(memlake_emulator):
        (gpu,) = memlake_emulator.emulate(memory="1GiB")
        my_allocator.run(device=gpu.ordinal)          # code that loads libcuda.so.1 finds the emulator
        assert memlake_emulator.ledger().held(gpu) == 0

When the test ends, its devices are closed, and the test fails if the code did something that would crash or corrupt a
real driver. A test that does so on purpose takes the sentences: ``memlake_emulator.take_violations()``.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlake.emulator.driver_ledger import Incident, Ledger
    from memlake.emulator.emulated_device import EmulatedDevices

__all__ = ["EmulatorFixture", "memlake_emulator"]


class EmulatorFixture:
    """What a test gets: emulated devices that go with the test, and the ledger."""

    def __init__(self) -> None:
        self._groups: list[EmulatedDevices] = []
        self._seen = _last_violation(self.ledger())

    def emulate(self, *args: Any, **options: Any) -> EmulatedDevices:
        """Like `memlake.emulate`; the devices are closed when the test ends."""
        from memlake.emulator.emulated_device import emulate

        devices = emulate(*args, **options)
        self._groups.append(devices)
        return devices

    def ledger(self) -> Ledger:
        """What exists on the emulated driver, as `memlake.emulator.ledger`."""
        from memlake import emulator

        return emulator.ledger()

    def take_violations(self) -> list[Incident]:
        """The contract violations since the test began or since the last call. The test does not fail for them."""
        new = [incident for incident in self.ledger().violations if incident.sequence > self._seen]
        self._seen = max((incident.sequence for incident in new), default=self._seen)
        return new

    def close(self) -> None:
        """Closes the devices that are still open.

        Those at whose memory a NumPy view looks stay: a test that failed keeps its variables for the report.
        """
        for device in chain.from_iterable(self._groups):
            if device.is_open:
                with suppress(BufferError):
                    device.close()


@pytest.fixture
def memlake_emulator() -> Iterator[EmulatorFixture]:
    """Emulated CUDA devices for one test, under the whole process; see docs/guides/testing_without_a_gpu.md."""
    _put_emulator_under_process()
    fixture = EmulatorFixture()
    yield fixture
    # Violations first: closing waits for queued work and would hide what the test left behind.
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
