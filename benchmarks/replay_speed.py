"""What one row of a trace costs in a replay: the policy's decisions and its calls of the emulated driver.

Thread CPU time on one core, each pass with an empty pool on an empty device; the first pass warms up. The goal is 5
million rows per second under PyTorch's policies. `direct` calls the driver for every row, so its figure is mostly the
emulator's. Where valgrind is installed, instructions per row are counted too: they do not depend on the moment.
"""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import memlake
from benchmarks.example_replays import PASSES, capacity_for, one_core, replay_seconds, traces
from benchmarks.figures import Figure, Figures, Goal

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "release" / "benchmarks" / "native" / "replay_rows"
POLICIES = ("caching", "expandable", "direct")
POOLED = ("caching", "expandable")


def instructions_per_row(trace: memlake.Trace, policy: str) -> float | None:
    """By callgrind, as the difference of two runs, so that start-up does not count; None without valgrind."""
    if shutil.which("valgrind") is None or not PROGRAM.exists():
        return None
    counted = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rows")
        file.write_bytes(
            b"".join(
                (
                    np.uint64(len(trace)).tobytes(),
                    trace.bytes.tobytes(),
                    trace.id.tobytes(),
                    trace.stream.tobytes(),
                    trace.op.tobytes(),
                )
            )
        )
        for passes in (1, 2):
            command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(PROGRAM)]
            command += [memlake.emulator_library(), str(file), policy, str(capacity_for(trace)), str(passes)]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
            collected = re.search(r"Collected : (\d+)", said)
            if collected is None:
                raise RuntimeError(f"callgrind does not say what it collected: {said}")
            counted.append(int(collected[1]))
    return (counted[1] - counted[0]) / len(trace)


def measure() -> Figures:
    """Nanoseconds per row, by policy and trace, and the slowest of PyTorch's policies."""
    figures = {}
    replayed = traces()
    with one_core():
        for policy in POLICIES:
            for name, trace in replayed.items():
                passes = [replay_seconds(trace, policy) / len(trace) * 1e9 for _ in range(PASSES + 1)]
                figures[f"{policy}/{name}"] = Figure.median(passes[1:], "ns")
    slowest = max(figure.value for key, figure in figures.items() if key.startswith(POOLED))
    figures["slowest"] = Figure(slowest, "ns")
    figures["rows_per_second"] = Figure(1000 / slowest, "million")
    shortest = min(replayed.values(), key=len)
    for policy in POLICIES:
        instructions = instructions_per_row(shortest, policy)
        if instructions is not None:
            figures[f"{policy}_counted"] = Figure(instructions, "instructions")
    return Figures("replay_speed", figures, Goal("slowest", 200))
