"""What one emulated create + map + set access + unmap + release costs through the C ABI.

Measured by a C++ program (benchmarks/native/emulator_cycle.cpp, built by `make bench`), as thread CPU time: with `none`
backing on an empty device (the goal) and on one with 10 000 live mappings, and with `host` backing, where the kernel's
own work is most of it. Where valgrind is installed, instructions per cycle are counted too: they do not depend on the
moment.
"""

import re
import shutil
import subprocess
from pathlib import Path

import memlake
from benchmarks.figures import Figure, Figures, Goal

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "release" / "benchmarks" / "native" / "emulator_cycle"
PASSES = 9
CASES = {
    # name: (config, cycles per pass, live mappings)
    "none": ("memory=80GiB,backing=none", 20_000, 0),
    "none_10000_live": ("memory=80GiB,backing=none", 20_000, 10_000),
    "host": ("memory=8GiB,backing=host", 2_000, 0),
}


def run(config: str, cycles: int, passes: int, live: int, *before: str) -> subprocess.CompletedProcess[str]:
    """The C++ program, possibly under another one."""
    command = [*before, str(PROGRAM), str(memlake.emulator_library()), config, str(cycles), str(passes), str(live)]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def instructions_per_cycle() -> float | None:
    """By callgrind, as the difference of two runs, so that start-up does not count; None without valgrind."""
    if shutil.which("valgrind") is None:
        return None
    config, _, live = CASES["none"]
    counted = []
    for cycles in (500, 1500):
        callgrind = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
        said = run(config, cycles, 1, live, *callgrind).stderr
        collected = re.search(r"Collected : (\d+)", said)
        if collected is None:
            raise RuntimeError(f"callgrind does not say what it collected: {said}")
        counted.append(int(collected[1]))
    return (counted[1] - counted[0]) / 1000


def measure() -> Figures:
    """Microseconds per cycle in each case, and instructions."""
    figures = {}
    for name, (config, cycles, live) in CASES.items():
        said = run(config, cycles, PASSES + 1, live).stdout
        passes = [float(line) / 1000 for line in said.split()]
        figures[name] = Figure.median(passes[1:], "us")  # the first pass warms up
    instructions = instructions_per_cycle()
    if instructions is not None:
        figures["none_counted"] = Figure(instructions, "instructions")
    return Figures("emulator_cycle", figures, Goal("none", 3))
