"""A pytest plugin that writes every test's begin and outcome to a file at once, so that a crash loses nothing.

It runs in the suite's own environment, so it imports nothing of memlake. MEMLAKE_SUITES_JOURNAL names the file. Each
line is one JSON object: `{"begun": id}`, `{"ended": id, "outcome": ..., "reason": ..., "evidence": ...}` or
`{"uncollected": reason}`. The evidence of a test that did not pass is what it wrote, and how many launches of kernels
the emulator has skipped in this process meanwhile. Tests that the file already has are not run again. An id is the part
of pytest's id that follows the file.
"""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

JOURNAL = "MEMLAKE_SUITES_JOURNAL"
REASON_LENGTH = 600
OUTPUT_LENGTH = 4000
EMULATOR = "libmemlake_emulator.so"


def short_id(nodeid: str) -> str:
    """The id of a test inside its file."""
    return nodeid.partition("::")[2] or nodeid


def outcome_of(report: pytest.TestReport) -> str:
    """What one phase of a test came to: also xfailed, xpassed and error."""
    if hasattr(report, "wasxfail"):
        return {"skipped": "xfailed", "passed": "xpassed"}.get(report.outcome, "failed")
    if report.outcome == "failed":
        return "failed" if report.when == "call" else "error"
    return report.outcome


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The message of a failure or of a skip, shortened."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if isinstance(report.longrepr, tuple):
        text = str(report.longrepr[2])
    elif crash is not None:
        text = str(crash.message)
    else:
        text = str(report.longrepr or "")
    return str(getattr(report, "wasxfail", "") or text)[:REASON_LENGTH]


def skipped_launches() -> int:
    """How many launches the emulator of this process has skipped; 0 if it is not loaded."""
    files = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if EMULATOR in line}
    if not files:
        return 0
    ledger = ctypes.CDLL(files.pop()).memlakeEmulatorLedger
    size = ctypes.c_size_t(0)
    ledger(None, ctypes.byref(size))
    size.value *= 2  # work of other threads may add to it meanwhile
    text = ctypes.create_string_buffer(size.value)
    if ledger(text, ctypes.byref(size)) != 0:
        return 0
    kernels: dict[str, int] = json.loads(text.value).get("skipped_kernels", {})
    return sum(kernels.values())


class Recorder:
    """Writes the journal of one process."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.found: dict[str, tuple[str, str]] = {}
        self.output: dict[str, str] = {}
        self.launches_before = 0

    def write(self, **entry: str) -> None:
        """Appends one line and hands it to the operating system."""
        with self.journal.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Drops the tests that an earlier process has run."""
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        before = {entry["begun"] for entry in map(json.loads, lines) if "begun" in entry}
        dropped = [item for item in items if short_id(item.nodeid) in before]
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if short_id(item.nodeid) not in before]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported, or that skips itself as a whole."""
        if report.outcome != "passed":
            self.write(uncollected=report.outcome, reason=reason_of(report))

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        """A test begins."""
        self.launches_before = skipped_launches()
        self.write(begun=short_id(nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of a test: the worst one decides."""
        outcome = outcome_of(report)
        worst = self.found.get(report.nodeid)
        if outcome != "passed" and (worst is None or worst[0] not in ("failed", "error")):
            self.found[report.nodeid] = (outcome, reason_of(report))
        self.output[report.nodeid] = (report.capstdout + report.capstderr)[-OUTPUT_LENGTH:]

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        """A test has ended."""
        outcome, reason = self.found.pop(nodeid, ("passed", ""))
        output = self.output.pop(nodeid, "")
        evidence = ""
        if outcome != "passed":
            evidence = f"{output}\nskipped launches: {skipped_launches() - self.launches_before}"
        self.write(ended=short_id(nodeid), outcome=outcome, reason=reason, evidence=evidence)


def pytest_configure(config: pytest.Config) -> None:
    """Starts recording in the process that runs the tests."""
    config.pluginmanager.register(Recorder(Path(os.environ[JOURNAL])), "memlake_suites_recorder")
