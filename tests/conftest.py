"""Emulated devices for every test. They come from memlake's own pytest plugin, so a contract violation that a test does
not take fails it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from memlake import EmulatedDevice, EmulatedDevices
    from memlake.pytest_plugin import EmulatorFixture

pytest_plugins = ["pytester"]

GRANULE = 2 * 2**20
"""The granularity of the devices below."""


@pytest.fixture
def gpus(memlake_emulator: EmulatorFixture) -> EmulatedDevices:
    """Two small devices that reach each other's memory."""
    return memlake_emulator.emulate(devices=2, memory="64MiB")


@pytest.fixture
def gpu(gpus: EmulatedDevices) -> EmulatedDevice:
    """One small device."""
    return gpus[0]
