"""The frame of the benchmarks: names, one line, one file. What they measure is not tested: figures are no tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FIGURES = """
from pathlib import Path
from benchmarks.figures import Figure, Figures, Goal
for limit in (3, 2):
    measured = {"none": Figure.median([9.0, 2.5, 2.4], "us"), "counted": Figure(4000, "instructions")}
    figures = Figures("cycle", measured, Goal("none", limit))
    print(figures.line())
print(figures.write(Path("FOLDER")))
"""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_line_says_the_numbers_and_whether_the_goal_is_met_and_the_file_says_where_and_when(tmp_path):
    done = run("-c", FIGURES.replace("FOLDER", str(tmp_path)))
    assert done.stderr == ""
    met, missed, file = done.stdout.splitlines()
    assert met == "cycle: none 2.5 us, counted 4000 instructions (goal: none <= 3: met)"
    assert missed == "cycle: none 2.5 us, counted 4000 instructions (goal: none <= 2: MISSED)"
    record = json.loads(Path(file).read_text())
    assert record["figures"]["none"] == {"value": 2.5, "unit": "us", "passes": [9.0, 2.5, 2.4]}
    assert record["goal"] == {"figure": "none", "at_most": 2}
    assert record["machine"]["cores"] >= 1
    assert record["date"].endswith("+00:00")
    assert "commit" in record


def test_an_unknown_benchmark_is_refused_with_the_known_names():
    done = run("-m", "benchmarks", "nothing")
    assert done.returncode == 2
    assert "no benchmark is named nothing; there are emulator_cycle, " in done.stderr


def test_a_benchmark_that_cannot_run_here_says_why():
    environment = {**os.environ, "MEMLAKE_PEERLAB": "/nowhere"}
    command = [sys.executable, "-m", "benchmarks", "replay_against_torch"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "replay_against_torch: skipped: /nowhere/build/replay does not exist\n"
