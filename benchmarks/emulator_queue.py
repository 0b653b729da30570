"""What it costs to queue emulated work through the C ABI, and how long the work takes to complete.

The work is copies of 4 bytes, and launches of a kernel that the emulator skips.

Measured by C++ programs (benchmarks/native/emulator_copy.cpp and emulator_launch.cpp, built by `make bench`). Queueing
is thread CPU time of the caller. Completion is the wall clock per operation of a long queue: how the machine schedules
the worker is a part of it.
"""

import subprocess
from pathlib import Path

import memlake
from benchmarks.figures import Figure, Figures, Goal

PROGRAMS = Path(__file__).resolve().parent.parent / "build" / "release" / "benchmarks" / "native"
OPERATIONS = 2_000
PASSES = 9
CASES = {
    "none_manual": "memory=1GiB,backing=none,streams=manual",
    "none": "memory=1GiB,backing=none",
    "host": "memory=1GiB,backing=host",
}


def measure_copies() -> Figures:
    """Microseconds per copy to queue it in each case, and until it is done."""
    return _measure("emulator_copy", "")


def measure_launches() -> Figures:
    """Microseconds per launch to queue it in each case, and until it is done."""
    return _measure("emulator_launch", ",kernels=skip")


def _measure(program: str, settings: str) -> Figures:
    figures = {}
    for name, config in CASES.items():
        library = str(memlake.emulator_library())
        command = [str(PROGRAMS / program), library, config + settings, str(OPERATIONS), str(PASSES + 1)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        passes = [[float(number) / 1000 for number in line.split()] for line in said.splitlines()]
        queued, done = zip(*passes[1:], strict=True)  # the first pass warms up
        figures[name] = Figure.median(queued, "us")
        figures[f"{name}_done"] = Figure.median(done, "us")
    return Figures(program, figures, Goal("host", 2))
