"""The devices of these tests: each named machine of the emulator, or the devices of a real driver.

- `python -m pytest tests/hardware` runs every test on every machine of `memlake.emulator.hardware`.
- `MEMLAKE_TEST_DRIVER=libcuda.so.1 python -m pytest tests/hardware` runs them on the devices of a driver.
"""

from __future__ import annotations

import os

import pytest

import memlake
from memlake.emulator.hardware import HARDWARE


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "machine" in metafunc.fixturenames:
        on_driver = os.environ.get("MEMLAKE_TEST_DRIVER")
        metafunc.parametrize("machine", [on_driver] if on_driver else list(HARDWARE), ids=os.path.basename)


@pytest.fixture
def devices(machine, request):
    """Two emulated devices that reach each other's memory, or the real devices."""
    if machine in HARDWARE:
        return list(request.getfixturevalue("memlake_emulator").emulate(devices=2, memory="512MiB", hardware=machine))
    found = memlake.devices(machine)
    if not found:
        pytest.skip(f"{machine} has no device")
    return found


@pytest.fixture
def device(devices):
    """The first of them."""
    return devices[0]
