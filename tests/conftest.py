"""Emulated devices for every test. They come from memlake's own pytest plugin, so a contract violation that a test does
not take fails it. The marks `alone` and `slow`. And the folder of large traces, for the tests that need one."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import memlake
from helpers import slow_tests
from helpers.machine_lock import machine_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlake import EmulatedDevice, EmulatedDevices
    from memlake.emulator.pytest_plugin import EmulatorFixture

pytest_plugins = ["pytester"]
collect_ignore = ["peers", "emulator/suites"]
"""`make peers` and `make suites` run them: they need a CUDA build of PyTorch, and other projects' tests."""

GRANULE = 2 * 2**20
"""The granularity of the devices below."""


# What a pool says about a machine that lacks something (docs/guides/on_real_hardware.md). With --memlake-hardware, a
# test that needs what the machine lacks ends with one of these, and is skipped.
REFUSALS = (
    "needs virtual memory management",
    "has no virtual memory management",
    "cannot hand memory to other processes",
    "cannot map memory of the host",
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[pytest.TestReport]:
    result = yield
    if os.environ.get("MEMLAKE_HARDWARE") and call.excinfo is not None and result.failed:
        said = refusal_in(str(call.excinfo.value))
        if said is not None:
            result.outcome = "skipped"
            result.longrepr = (str(item.path), item.location[1], f"Skipped: the machine lacks it: {said}")
    return result


def refusal_in(text: str) -> str | None:
    """The sentence of a pool in the text of an error, which may be the output of a program that a test has run."""
    lines = [line for line in text.replace("\\n", "\n").splitlines() if any(refusal in line for refusal in REFUSALS)]
    if not lines:
        return None
    start = lines[0].rfind("Error: ")
    return lines[0][start + len("Error: ") if start >= 0 else 0 :].strip()[:300]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-slow-tests", action="store_true", help=f"measure, and write {slow_tests.LIST.name} anew")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*features): skipped on a machine that lacks one of `Device.features`")
    config.addinivalue_line(
        "markers", "alone(resource): tests of one resource of the machine run one after another, in all processes"
    )
    config.addinivalue_line("markers", f"slow: `make test-quick` leaves it out; set by tests/{slow_tests.LIST.name}")
    if config.getoption("--write-slow-tests"):
        config.pluginmanager.register(slow_tests.Measure())
    if config.getoption("--memlake-hardware", default=None):
        # A pool that is made without a policy says that it has another one. Tests that do not need `lake` go on.
        config.addinivalue_line("filterwarnings", "ignore:.*has no virtual memory management:RuntimeWarning")
    # A shell starts a program in the background with SIGINT ignored, and the programs that tests start would inherit
    # that. Then the tests that interrupt a program would wait for ever.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow_tests.mark(items)


def pytest_collection_finish() -> None:
    # Many tests call gc.collect(). The collected tests are millions of objects that live until the end, and looking at
    # all of them took a fifth of a second each time.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    marker = item.get_closest_marker("alone")
    if marker is None:
        return (yield)
    with machine_lock(marker.args[0]):
        return (yield)


def pytest_runtest_setup(item: pytest.Item) -> None:
    marker = item.get_closest_marker("needs")
    if marker is None or not os.environ.get("MEMLAKE_HARDWARE"):
        return
    (device,) = memlake.emulate(memory="64MiB")
    lacking = {name: device.features[name] for name in marker.args if not device.features[name].has}
    device.close()
    for name, answer in lacking.items():
        pytest.skip(f"the machine lacks {name}: {answer.reason}")


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
