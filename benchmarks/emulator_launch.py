"""What it costs to queue the launch of a kernel that the emulator skips, and how long the launches take to complete.

Measured by a C++ program (benchmarks/native/emulator_launch.cpp, built by `make bench`). Queueing is thread CPU time of
the caller. Completion is the wall clock per launch of a long queue: how the machine schedules the worker is a part of
it.
"""

import subprocess
from pathlib import Path

import memlake
from benchmarks.figures import Figure, Figures, Goal

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "release" / "benchmarks" / "native" / "emulator_launch"
LAUNCHES = 2_000
PASSES = 9
CASES = {
    "none_manual": "memory=1GiB,backing=none,kernels=skip,streams=manual",
    "none": "memory=1GiB,backing=none,kernels=skip",
    "host": "memory=1GiB,backing=host,kernels=skip",
}


def measure() -> Figures:
    """Microseconds per launch to queue it in each case, and until it is done."""
    figures = {}
    for name, config in CASES.items():
        command = [str(PROGRAM), str(memlake.emulator_library()), config, str(LAUNCHES), str(PASSES + 1)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        passes = [[float(number) / 1000 for number in line.split()] for line in said.splitlines()]
        queued, done = zip(*passes[1:], strict=True)  # the first pass warms up
        figures[name] = Figure.median(queued, "us")
        figures[f"{name}_done"] = Figure.median(done, "us")
    return Figures("emulator_launch", figures, Goal("host", 2))
