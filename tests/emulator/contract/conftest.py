"""The driver under test, a world for each case, and the report at the end.

- `python -m pytest tests/emulator/contract` asks the emulator of the installed package.
- `python -m pytest tests/emulator/contract --driver libcuda.so.1` asks a real driver: differences are listed, not
  asserted.
- `MEMLAKE_TEST_LIBRARY=PATH python -m pytest tests/emulator/contract` does the same for any library.
"""

from __future__ import annotations

import mmap
import os
import re
from ctypes import byref, c_int
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from emulator.contract.expectations import Expectations
from emulator.contract.report import Report
from helpers.abi_driver import Driver
from helpers.abi_process import add_devices
from helpers.abi_types import ATTRIBUTE_VMM_SUPPORTED, result_name
from helpers.abi_world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

DRIVER = pytest.StashKey[Driver]()
REPORT = pytest.StashKey[Report]()
IS_FAILED = pytest.StashKey[bool]()

GRANULARITIES = {
    "64KiB": {"granularity": "64KiB", "memory": "256MiB"},
    "2MiB": {"granularity": "2MiB", "memory": "256MiB"},
    "2MiB-recommended-16MiB": {"granularity": "2MiB", "recommended": "16MiB", "memory": "256MiB"},
    "512MiB": {"granularity": "512MiB", "memory": "32GiB"},
}
"""The shapes of device that the contract wants every allocator tried on (A2)."""
if mmap.PAGESIZE >= 64 << 10:
    del GRANULARITIES["64KiB"]  # the cases need sizes between a page and a granule


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("contract", "driver contract")
    group.addoption("--driver", metavar="LIBRARY", help="the driver library to ask, for instance libcuda.so.1")
    group.addoption("--report", action="store_true", help="list differences instead of failing, on the emulator, too")


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "world(**config): the emulated devices a case needs; a real driver must have devices like them",
        "one_device_will_do: a real driver with less than the world asks for is asked all the same, on device 0",
        "granularities: on the emulator, run on devices of every granularity the contract names",
        "emulator_only(reason): a real driver is not asked this",
    ):
        config.addinivalue_line("markers", marker)
    if config.getoption("--driver", default=None):
        driver_under_test(config)  # a library that cannot be used is told before anything is collected


def library_under_test(config: pytest.Config) -> str:
    """The command line, then the environment, then the emulator of the installed package."""
    named = config.getoption("--driver", default=None) or os.environ.get("MEMLAKE_TEST_LIBRARY")
    if named:
        return named
    import memlake

    return str(memlake.emulator_library())


def driver_under_test(config: pytest.Config) -> Driver:
    """Loaded once; a real one is initialised here, the emulator when the first world has added its devices."""
    if DRIVER not in config.stash:
        library = library_under_test(config)
        try:
            driver = Driver(library)
        except OSError as error:
            raise pytest.UsageError(f"the driver library cannot be loaded: {error}") from error
        if not driver.is_emulated and (code := driver.cuInit(0)) != 0:
            raise pytest.UsageError(f"{driver.library}: cuInit answered {result_name(code)}")
        config.stash[DRIVER] = driver
    return config.stash[DRIVER]


def is_report(config: pytest.Config) -> bool:
    """Whether differences are collected. Always so on a real driver."""
    return config.getoption("--report", default=False) or not driver_under_test(config).is_emulated


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("granularities") and driver_under_test(metafunc.config).is_emulated:
        metafunc.parametrize("device_config", GRANULARITIES.values(), ids=GRANULARITIES.keys(), indirect=True)


def report_of(config: pytest.Config) -> Report:
    """The report of this run."""
    if REPORT not in config.stash:
        driver = driver_under_test(config)
        name = "emulator" if driver.is_emulated else driver.device_name(0)
        config.stash[REPORT] = Report(name, driver.version())
    return config.stash[REPORT]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if is_report(item.config):
        report_of(item.config).note_outcome(item.name, "started", "")
    marker = item.get_closest_marker("emulator_only")
    if marker and not driver_under_test(item.config).is_emulated:
        pytest.skip(marker.args[0])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield
    if "expect" in item.funcargs:
        item.funcargs["expect"].verdict()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    result = yield
    item.stash[IS_FAILED] = item.stash.get(IS_FAILED, False) or result.failed
    if is_report(item.config):
        reason = "" if result.passed else str(result.longrepr[2] if result.skipped else call.excinfo.value)
        report = report_of(item.config)
        report.note_outcome(item.name, result.outcome, reason)
        report.write(Path.cwd())  # after each test: a real driver may end the process in the next one
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if REPORT in config.stash:
        report = config.stash[REPORT]
        terminalreporter.section("driver contract")
        for line in report.lines():
            terminalreporter.line(line)
        terminalreporter.line(f"every question and answer: {report.write(Path.cwd())}")


@pytest.fixture(scope="session")
def driver(pytestconfig: pytest.Config) -> Driver:
    """The driver library under test."""
    return driver_under_test(pytestconfig)


@pytest.fixture
def expect(request: pytest.FixtureRequest, driver: Driver) -> Iterator[Expectations]:
    """The expectations of this case; the case's number is in its name."""
    number = re.match(r"test_case_(\d{3})_", request.node.name)
    case = int(number[1]) if number else 0
    expectations = Expectations(case, driver, is_report(request.config), test=request.node.name)
    yield expectations
    if expectations.is_report:
        report_of(request.config).rows.update(expectations.rows)
        expectations.verdict()


@pytest.fixture
def adds_all_devices(driver: Driver) -> bool:
    """Whether the driver has no devices but those of the cases. A real driver has others, and so has the emulator if
    the environment describes them."""
    return driver.is_emulated and not os.environ.get("MEMLAKE_EMULATOR")


@pytest.fixture
def device_config(request: pytest.FixtureRequest) -> dict[str, object]:
    """What the case says about its devices, in the words of the emulator's configuration."""
    marker = request.node.get_closest_marker("world")
    return (marker.kwargs if marker else {}) | getattr(request, "param", {})


@pytest.fixture
def devices(request: pytest.FixtureRequest, driver: Driver, device_config: dict[str, object]) -> Iterator[list[int]]:
    """The ordinals of the case's devices: fresh ones on the emulator, those of the machine on a real driver."""
    if not driver.is_emulated:
        yield real_devices(driver, {} if request.node.get_closest_marker("one_device_will_do") else device_config)
        return
    first, count = add_devices(driver, device_config)
    yield list(range(first, first + count))
    code = driver.memlakeEmulatorCloseDevices(first, count)
    assert code == 0, driver.last_error()


@pytest.fixture
def world(
    request: pytest.FixtureRequest,
    driver: Driver,
    devices: list[int],
    expect: Expectations,
) -> Iterator[World]:
    """What the case lives in. At its end everything must be gone."""
    world = World(driver, devices)
    yield world
    problems = world.close(expect.violations)
    if not request.node.stash.get(IS_FAILED, False):
        expect.equal("what is left after the case", problems, [], "D")


def real_devices(driver: Driver, wanted: dict[str, object]) -> list[int]:
    """The devices of the machine, if they are what the case needs; otherwise the case is skipped with the reason."""
    count, needed = driver.device_count(), int(str(wanted.get("devices", 1)))
    if count < needed:
        pytest.skip(f"needs {needed} devices, this machine has {count}")
    has_vmm = c_int(0)
    driver.cuDeviceGetAttribute(byref(has_vmm), ATTRIBUTE_VMM_SUPPORTED, 0)
    if not has_vmm.value:
        pytest.skip("device 0 has no virtual memory management (attribute 102)")
    if "peers" in wanted:
        can = c_int(0)
        driver.cuDeviceCanAccessPeer(byref(can), 1, 0)
        if bool(can.value) != (wanted["peers"] == "all"):
            pytest.skip(f"needs peers={wanted['peers']}; device 1 {'can' if can.value else 'cannot'} reach device 0")
    return list(range(needed))
