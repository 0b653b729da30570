"""The tests that `make test-quick` leaves out: those that need more CPU time than a budget.

`tests/slow_tests.txt` lists them. `make slow-tests` runs every test, measures its CPU time and writes the list anew.
CPU time is that of the test's process and of the processes that it has waited for, so other programs on the machine
hardly change it. Nothing fails because a test is slow: a new test is quick until the list is written again.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TESTS = Path(__file__).resolve().parents[1]
LIST = TESTS / "slow_tests.txt"
BUDGET = 0.25
"""CPU seconds. A test with several cases is slow if one of them needs more."""

HEADER = f"""\
# The tests with a case that needs more than {BUDGET} CPU seconds. `make test-quick` leaves them out.
# `make slow-tests` writes this list. The number is the CPU time of the test's slowest case in seconds.
"""


def name_of(nodeid: str) -> str:
    """The name of a test in the list: its file and its function, for all of its cases."""
    path, _, function = nodeid.partition("[")[0].partition("::")
    return f"{path.removeprefix('tests/')}::{function}"


def listed(text: str) -> dict[str, float]:
    """The names in the text of a list, each with its CPU seconds."""
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(seconds) for seconds, name in rows}


def text_of(seconds: dict[str, float]) -> str:
    """The text of a list of those tests that need more than the budget."""
    rows = [f"{cost:8.2f} {name}\n" for name, cost in sorted(seconds.items()) if cost > BUDGET]
    return HEADER + "".join(rows)


def mark(items: Iterable[pytest.Item]) -> None:
    """Marks the collected tests that are in the list."""
    slow = listed(LIST.read_text())
    for item in items:
        if name_of(item.nodeid) in slow:
            item.add_marker("slow")


def cpu_seconds() -> float:
    """The CPU time of this process and of the processes that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Measure:
    """A plugin that measures every test and writes the list at the end.

    With pytest-xdist, the workers measure and the process that started them writes.
    """

    PROPERTY = "cpu_seconds"

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self._start = cpu_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Iterator[Any]:
        report = yield
        if call.when == "teardown":
            report.user_properties = [*report.user_properties, (self.PROPERTY, cpu_seconds() - self._start)]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == self.PROPERTY:
                test = name_of(report.nodeid)
                self.seconds[test] = max(self.seconds.get(test, 0.0), float(value))  # type: ignore[arg-type]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not hasattr(session.config, "workerinput"):
            LIST.write_text(text_of(self.seconds))
