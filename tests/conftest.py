"""Emulated devices for every test. They come from memlake's own pytest plugin, so a contract violation that a test does
not take fails it. And the folder of large traces, for the tests that need one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from memlake import EmulatedDevice, EmulatedDevices
    from memlake.integrations.pytest_plugin import EmulatorFixture

pytest_plugins = ["pytester"]
collect_ignore = ["peers", "suites"]
"""`make peers` and `make suites` run them: they need a CUDA build of PyTorch, and other projects' tests."""

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


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with large traces and other people's snapshots, which is not part of the project."""
    beside = Path(__file__).parents[2] / "shared"
    folder = Path(os.environ.get("MEMLAKE_SHARED", beside))
    if not (folder / "traces").is_dir():
        pytest.skip(f"no folder with shared traces: neither MEMLAKE_SHARED nor {beside.name} beside the repository")
    return folder
