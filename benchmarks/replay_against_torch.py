"""A replay beside PyTorch's own allocator: the CPU time of an operation, in one run, on one core, on the same traces.

torch's unmodified libc10_cuda runs on a CUDA runtime that only keeps books; MEMLAKE_PEERLAB names the folder with its
build/replay. Both are timed as thread CPU time per operation, median of several passes. Ours begins each pass with an
empty pool. torch is timed twice, with its cache emptied before each pass and with its cache kept, and the faster one
counts.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.example_replays import PASSES, capacity_for, one_core, replay_seconds, traces
from benchmarks.figures import Figure, Figures, Goal, SkippedError
from memlake.trace import Op

POLICIES = {"caching": "", "expandable": "expandable_segments:True"}
# What torch's allocator sees of a trace.
OPERATIONS = (Op.ALLOCATE, Op.FREE, Op.RECORD_STREAM, Op.EMPTY_CACHE)


def replay_program() -> Path:
    """The program that replays a trace through torch's library."""
    folder = os.environ.get("MEMLAKE_PEERLAB")
    if not folder:
        raise SkippedError("MEMLAKE_PEERLAB names no folder with a build of torch's allocator")
    program = Path(folder, "build", "replay")
    if not program.exists():
        raise SkippedError(f"{program} does not exist")
    return program


def torch_nanoseconds(program: Path, text: Path, conf: str, capacity: int) -> float:
    """Per operation, with an empty cache or a warm one, whichever is faster."""
    environment = {**os.environ, "FAKE_CUDA_BYTES": str(capacity), "PYTORCH_ALLOC_CONF": conf}
    medians = []
    for emptied in (["-E"], []):
        command = [str(program), "-n", str(PASSES), *emptied, str(text)]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        (median,) = (line.split()[1] for line in said.splitlines() if line.startswith("cpu_ns_per_op_median "))
        medians.append(float(median))
    return min(medians)


def measure() -> Figures:
    """Nanoseconds per operation of both, and the worst ratio."""
    program = replay_program()
    figures = {}
    ratios = []
    with tempfile.TemporaryDirectory() as folder, one_core():
        for name, trace in traces().items():
            text = Path(folder, f"{name}.txt")
            trace.save(text)
            operations = int(np.isin(trace.op, OPERATIONS).sum())
            for policy, conf in POLICIES.items():
                passes = [replay_seconds(trace, policy) / operations * 1e9 for _ in range(PASSES + 1)]
                ours = Figure.median(passes[1:], "ns")
                torch = Figure(torch_nanoseconds(program, text, conf, capacity_for(trace)), "ns")
                figures[f"{policy}/{name}"] = ours
                figures[f"torch_{policy}/{name}"] = torch
                ratios.append(ours.value / torch.value)
    figures["worst_ratio"] = Figure(max(ratios), "of torch's")
    return Figures("replay_against_torch", figures, Goal("worst_ratio", 0.5))
