"""What it costs to queue an emulated copy of 4 bytes through the C ABI, and how long the copies take to complete.

Measured by a C++ program (benchmarks/native/emulator_copy.cpp, built by `make bench`). Queueing is thread CPU time of
the caller. Completion is the wall clock per copy of a long queue: how the machine schedules the worker is a part of it.
"""

import subprocess
from pathlib import Path

import memlake
from benchmarks.figures import Figure, Figures, Goal

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "release" / "benchmarks" / "native" / "emulator_copy"
COPIES = 2_000
PASSES = 9
CASES = {
    "none_manual": "memory=1GiB,backing=none,streams=manual",
    "none": "memory=1GiB,backing=none",
    "host": "memory=1GiB,backing=host",
}


def measure() -> Figures:
    """Microseconds per copy to queue it in each case, and until it is done."""
    figures = {}
    for name, config in CASES.items():
        command = [str(PROGRAM), str(memlake.emulator_library()), config, str(COPIES), str(PASSES + 1)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        passes = [[float(number) / 1000 for number in line.split()] for line in said.splitlines()]
        queued, done = zip(*passes[1:], strict=True)  # the first pass warms up
        figures[name] = Figure.median(queued, "us")
        figures[f"{name}_done"] = Figure.median(done, "us")
    return Figures("emulator_copy", figures, Goal("host", 2))
