"""Runs one file of a suite under the emulator, in processes of its own, and reads what became of each test.

If a process crashes or stands still, the test that it ran is recorded as crashed and a new process runs the rest.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

INSIDE = Path(__file__).parent / "inside"
END_OF_PROCESS = "(end of the process)"
WHOLE_FILE = "(the whole file)"
# A test of these suites takes seconds. A process whose tests neither begin nor end for this long is ended.
STANDSTILL = float(os.environ.get("MEMLAKE_SUITES_STANDSTILL", "300"))
POLL = 0.2
# 0: all passed, 1: some failed, 2: errors of collection, 4: a conftest.py or the command line is wrong, 5: no tests.
CODES_OF_PYTEST = (0, 1, 2, 4, 5)
# Settings of the developer's machine that would change results.
FOREIGN = ("CUDA_", "NUMBA_", "PYTEST_", "PYTHON", "LD_", "MEMLAKE_")


@dataclass(frozen=True)
class Outcome:
    """What became of one test: passed, failed, error, skipped, xfailed, xpassed or crashed; and the message.

    The evidence is what the test wrote and how many launches the emulator skipped, if it did not pass.
    """

    outcome: str
    reason: str = ""
    evidence: str = ""


def emulated(command: Sequence[str], settings: Sequence[str]) -> list[str]:
    """The command under ``memlake emulate`` of this environment."""
    return [sys.executable, "-m", "memlake", "emulate", *settings, "--", *command]


def run_file(command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path) -> dict[str, Outcome]:
    """Runs pytest's command line for one file in ``folder`` until each test has an outcome; output goes to ``log``."""
    with tempfile.TemporaryDirectory() as scratch:
        journal = Path(scratch) / "journal"
        journal.touch()
        environment = {
            **{name: value for name, value in environment.items() if not name.startswith(FOREIGN)},
            "MEMLAKE_SUITES_JOURNAL": str(journal),
            "PYTHONPATH": str(INSIDE),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        crashes: dict[str, Outcome] = {}
        with log.open("wb") as output:
            while True:
                ending = _run_process([*command, "-p", "recorder"], folder, environment, journal, output)
                found, unfinished = read_journal(journal.read_text().splitlines())
                new = [test for test in unfinished if test not in crashes]
                crashes.update((test, Outcome("crashed", ending or "the process ended early")) for test in new)
                if ending is not None and not new:
                    crashes[END_OF_PROCESS] = Outcome("crashed", ending)
                elif not new and not found and not crashes:
                    # pytest ended before it collected a test: a conftest.py failed, or there is no such file.
                    found[WHOLE_FILE] = Outcome("error", _last_line(log))
                if not new:
                    return {**found, **crashes}


def read_journal(lines: Sequence[str]) -> tuple[dict[str, Outcome], list[str]]:
    """The outcomes in a journal, and the tests that have begun and not ended."""
    found: dict[str, Outcome] = {}
    begun: list[str] = []
    for entry in map(json.loads, lines):
        if "begun" in entry:
            begun.append(entry["begun"])
        elif "ended" in entry:
            found[entry["ended"]] = Outcome(entry["outcome"], entry["reason"], entry["evidence"])
        else:
            outcome = "skipped" if entry["uncollected"] == "skipped" else "error"
            found[WHOLE_FILE] = Outcome(outcome, entry["reason"])
    return found, [test for test in begun if test not in found]


def _run_process(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], journal: Path, output: object
) -> str | None:
    """Runs one process; returns how it crashed, or None if pytest reached its end."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=output,  # type: ignore[call-overload]
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with _group_ended(process):
        size, since = -1, time.monotonic()
        while process.poll() is None:
            if (now := journal.stat().st_size) != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > STANDSTILL:
                return f"no test began or ended for {STANDSTILL:.0f} s"
            time.sleep(POLL)
    if process.returncode < 0:
        return f"killed by {signal.Signals(-process.returncode).name}"
    return None if process.returncode in CODES_OF_PYTEST else f"exit code {process.returncode}"


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "pytest printed nothing"


@contextlib.contextmanager
def _group_ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ends the process and all that it has started."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
