"""Runs probes inside the lab and prints one JSON line for each: its name and its outcome.

Arguments: the names of probes or groups; none: all. `--alone NAME FILE` runs one probe in this process and writes its
answer to the file. PEERS_MODE is the mode.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from inside.probe import Probe, UntrueError, all_probes

LAST_LINES = 2000
LOG_PREFIX = re.compile(r"\[([WE])\d{4} [\d:.]+ ")
"""PyTorch's own log begins each line with the time."""


def answer_of(probe: Probe) -> dict[str, Any]:
    """Asks the probe in this process."""
    from inside import mode
    from inside.books import check_books

    try:
        mode.prepare()
        if probe.is_installed:
            mode.install()
        value = probe.ask()
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name} in {place.name}"
        return {"error": type(error).__name__, "message": str(error), "where": where}
    try:
        if probe.keeps_books:
            check_books()
    except UntrueError as error:
        return {"value": value, "books": str(error)}
    return {"value": value}


def forked(probe: Probe) -> dict[str, Any]:
    """Asks the probe in a fork of this process."""
    with tempfile.TemporaryDirectory() as folder:
        answer, errors = Path(folder, "answer"), Path(folder, "errors")
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.environ.update(probe.environment)
            os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
            os.dup2(2, 1)
            os.chdir(folder)
            try:
                answer.write_text(json.dumps(answer_of(probe)))
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        return outcome(answer, os.waitstatus_to_exitcode(status), errors.read_text(errors="replace"), False)


def fresh(probe: Probe) -> dict[str, Any]:
    """Asks the probe in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        answer, errors = Path(folder, "answer"), Path(folder, "errors")
        with errors.open("w") as file:
            done = subprocess.run(
                [sys.executable, "-m", "inside.run_probes", "--alone", probe.name, str(answer)],
                env={**os.environ, **probe.environment},
                cwd=folder,
                stdout=file,
                stderr=file,
                check=False,
            )
        return outcome(answer, done.returncode, errors.read_text(errors="replace"), True)


def outcome(answer: Path, code: int, errors: str, has_exit: bool) -> dict[str, Any]:
    """The answer, and how the process ended if that was part of the question or went wrong."""
    found = json.loads(answer.read_text()) if answer.exists() and answer.stat().st_size else {}
    if code != 0 or not found or has_exit:
        found |= {"exit_code": code, "stderr": LOG_PREFIX.sub(r"[\1 ", errors)[-LAST_LINES:]}
    return found


def alone(name: str, answer: Path) -> None:
    """Asks one probe here and lets the interpreter end by itself."""
    answer.write_text(json.dumps(answer_of(all_probes()[name])))


def main() -> int:
    """Runs the named probes."""
    if sys.argv[1:2] == ["--alone"]:
        alone(sys.argv[2], Path(sys.argv[3]))
        return 0
    wanted = sys.argv[1:]
    for name, probe in all_probes().items():
        if wanted and name not in wanted and name.partition(".")[0] not in wanted:
            continue
        found = fresh(probe) if probe.is_fresh else forked(probe)
        print(json.dumps({"probe": name, "outcome": found}), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
