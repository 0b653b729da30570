"""Programs that run by themselves: to see how a process ends, and what is there before anything is imported."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

ON_ANY_MACHINE = 'import warnings; warnings.filterwarnings("ignore", ".*has no virtual memory")\n'
"""With --memlake-hardware, programs go on with the policy that a pool has instead, as the tests themselves do."""


def run_python(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a Python program with warnings as errors and the fault handler on."""
    program = (ON_ANY_MACHINE if os.environ.get("MEMLAKE_HARDWARE") else "") + textwrap.dedent(program)
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", "-c", program, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def assert_ends_well(program: str) -> str:
    """Runs a Python program that must end with exit code 0 and without a word on stderr; returns its output.

    Objects of the core that are never destroyed are listed on stderr, which is off by default.
    """
    done = run_python("__import__('memlake._native')._native._warn_of_leaks(True)\n" + textwrap.dedent(program))
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def child_processes() -> set[int]:
    """The children of this process, those that have ended and were not waited for included."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended meanwhile
            found.update(int(child) for child in (task / "children").read_text().split())
    return found
