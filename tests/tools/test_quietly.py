"""Steps of make say one short line when they work, and show their log when they do not."""

import re
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "quietly.sh"


def run(log: Path, command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(SCRIPT), str(log), "building", "sh", "-c", command], capture_output=True, text=True, check=False
    )


def test_success_is_one_line_and_the_noise_is_in_the_log(tmp_path):
    log = tmp_path / "logs" / "step.log"
    done = run(log, "echo noise; echo more >&2")
    assert done.returncode == 0
    assert re.fullmatch(r"memlake: building \.\.\. done in \d+ s\n", done.stdout)
    assert done.stderr == ""
    assert log.read_text() == "noise\nmore\n"


def test_failure_shows_the_log_and_keeps_the_status(tmp_path):
    log = tmp_path / "step.log"
    done = run(log, "echo the reason; exit 3")
    assert done.returncode == 3
    assert done.stdout == "memlake: building ... failed\n"
    assert done.stderr == f"the reason\nmemlake: building failed; the whole log is {log}\n"
