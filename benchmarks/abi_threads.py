"""How much one pool does per second through the C ABI, by the number of threads: 8 threads over 4 streams, against 1.

benchmarks/native/abi_threads.cpp does the work on an emulated device. All threads share one lock; the goal is that they
do not lose more than half of the throughput to it. Wall time; the runs with one thread and with eight alternate.
"""

import subprocess
from pathlib import Path

import memlake
from benchmarks.figures import Figure, Figures, Goal

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "release" / "benchmarks" / "native" / "abi_threads"
CONF = "driver:emulated,memory:80GiB,backing:none"
OPERATIONS = 400_000
ROUNDS = 7


def throughput(threads: int, streams: int) -> float:
    """Millions of operations per second, warm."""
    command = [str(PROGRAM), memlake.native_library(), memlake.emulator_library(), CONF, str(threads), str(streams)]
    said = subprocess.run([*command, str(OPERATIONS), "2"], capture_output=True, text=True, check=True).stdout
    return float(said.split()[1])


def measure() -> Figures:
    """Throughput with one thread and with eight, over four streams and on the default stream, and the loss."""
    figures = {}
    losses = []
    for name, streams in {"four_streams": 4, "default_stream": 0}.items():
        alone, together = [], []
        for _ in range(ROUNDS):
            alone.append(throughput(1, streams))
            together.append(throughput(8, streams))
        figures[f"{name}/1_thread"] = Figure.median(alone, "M/s")
        figures[f"{name}/8_threads"] = Figure.median(together, "M/s")
        loss = Figure.median([one / eight for one, eight in zip(alone, together, strict=True)], "times slower")
        figures[f"{name}/slowdown"] = loss
        losses.append(loss.value)
    figures["worst_slowdown"] = Figure(max(losses), "times slower")
    return Figures("abi_threads", figures, Goal("worst_slowdown", 2))
