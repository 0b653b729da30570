"""Runs the small programs of a case that needs a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def run_program(name: str, library: str) -> dict[str, Any]:
    """Runs programs/<name>.py on the driver library; returns the JSON object it printed."""
    environment = {key: value for key, value in os.environ.items() if key != "MEMLAKE_EMULATOR"}
    environment["PYTHONPATH"] = str(HERE.parents[1])
    program = HERE / "programs" / f"{name}.py"
    finished = subprocess.run(
        [sys.executable, str(program), library], env=environment, capture_output=True, text=True, check=False
    )
    if finished.returncode != 0:
        raise AssertionError(f"{name} ended with {finished.returncode}:\n{finished.stdout}{finished.stderr}")
    return json.loads(finished.stdout)
