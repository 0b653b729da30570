"""A pytest plugin that writes every test's begin and outcome to a file at once, so that a crash loses nothing.

It runs in the suite's own environment, so it imports nothing of memlake. MEMLAKE_SUITES_JOURNAL names the file. Each
line is one JSON object: `{"begun": id}`, `{"ended": id, "outcome": ..., "reason": ...}` or `{"uncollected": reason}`.
Tests that the file already has are not run again. An id is the part of pytest's id that follows the file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

JOURNAL = "MEMLAKE_SUITES_JOURNAL"
REASON_LENGTH = 600


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


class Recorder:
    """Writes the journal of one process."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.found: dict[str, tuple[str, str]] = {}

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
        self.write(begun=short_id(nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of a test: the worst one decides."""
        outcome = outcome_of(report)
        worst = self.found.get(report.nodeid)
        if outcome != "passed" and (worst is None or worst[0] not in ("failed", "error")):
            self.found[report.nodeid] = (outcome, reason_of(report))

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        """A test has ended."""
        outcome, reason = self.found.pop(nodeid, ("passed", ""))
        self.write(ended=short_id(nodeid), outcome=outcome, reason=reason)


def pytest_configure(config: pytest.Config) -> None:
    """Starts recording in the process that runs the tests."""
    config.pluginmanager.register(Recorder(Path(os.environ[JOURNAL])), "memlake_suites_recorder")
