"""The C ABI beside PyTorch's own allocator: the CPU time of an operation, in one run, on one core, on the same traces.

benchmarks/native/abi_rows.cpp plays a trace through memlake_torch_malloc and memlake_torch_free, loaded by name as
PyTorch loads them, on an emulated device: the lock and the look-up by pointer are in it. torch's unmodified
libc10_cuda runs on a CUDA runtime that only keeps books; MEMLAKE_PEERLAB names the folder with its build/replay. Both
play each trace several times, warm: thread CPU time per operation, median of the passes. The runs of the two
alternate, because other programs slow a machine down for a while, and the median of the ratios counts.

MEMLAKE_SHARED names the folder with the traces gpt and mix100k; without it the examples that come with memlake are
used.
"""

import os
import re
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

import memlake
from benchmarks.example_replays import PASSES, one_core, traces
from benchmarks.figures import Figure, Figures, Goal
from benchmarks.replay_against_torch import replay_program

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "release" / "benchmarks" / "native" / "abi_rows"
POLICIES = ("lake", "caching", "expandable")
SHARED_TRACES = ("gpt", "mix100k")
ROUNDS = 5
CAPACITY = 80 * 2**30


def trace_files(folder: Path) -> dict[str, Path]:
    """The traces as text, by name."""
    shared = os.environ.get("MEMLAKE_SHARED")
    if shared:
        found = {name: Path(shared, "traces", f"{name}.txt") for name in SHARED_TRACES}
        if all(path.exists() for path in found.values()):
            return found
    saved = {}
    for name, trace in traces().items():
        saved[name] = folder / f"{name}.txt"
        trace.save(saved[name])
    return saved


def run_abi(text: Path, policy: str, passes: int, *before: str) -> subprocess.CompletedProcess[str]:
    """The C++ program, possibly under another one."""
    conf = f"driver:emulated,memory:{CAPACITY},backing:none,policy:{policy}"
    command = [*before, str(PROGRAM), memlake.native_library(), str(text), str(passes)]
    return subprocess.run(command, env={**os.environ, "MEMLAKE_CONF": conf}, capture_output=True, text=True, check=True)


def abi_nanoseconds(text: Path, policy: str) -> float:
    """Per operation, through the C ABI; the first pass warms up."""
    passes = [float(line) for line in run_abi(text, policy, PASSES + 1).stdout.split()]
    return statistics.median(passes[1:])


def torch_nanoseconds(program: Path, text: Path) -> float:
    """Per operation, through PyTorch's native allocator with a warm cache."""
    environment = {**os.environ, "FAKE_CUDA_BYTES": str(CAPACITY), "PYTORCH_ALLOC_CONF": ""}
    said = subprocess.run(
        [str(program), "-n", str(PASSES + 1), str(text)], env=environment, capture_output=True, text=True, check=True
    ).stdout
    (median,) = (line.split()[1] for line in said.splitlines() if line.startswith("cpu_ns_per_op_median "))
    return float(median)


def instructions(text: Path, policy: str) -> float | None:
    """Per operation inside the library, by callgrind; None without valgrind. They do not depend on the moment."""
    if shutil.which("valgrind") is None:
        return None
    rows = sum(line[:1] in ("a", "f") for line in text.read_text().splitlines())
    inside = ("--toggle-collect=memlake_torch_malloc*", "--toggle-collect=memlake_torch_free*")
    counted = []
    for passes in (1, 3):
        callgrind = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *inside)
        collected = re.search(r"Collected : (\d+)", run_abi(text, policy, passes, *callgrind).stderr)
        if collected is None:
            raise RuntimeError("callgrind does not say what it collected")
        counted.append(int(collected[1]))
    return (counted[1] - counted[0]) / (2 * rows)


def measure() -> Figures:
    """Nanoseconds per operation of both, their ratios, and the worst of those."""
    program = replay_program()
    figures = {}
    ratios = []
    with tempfile.TemporaryDirectory() as folder, one_core():
        for name, text in trace_files(Path(folder)).items():
            torch = []
            ours: dict[str, list[float]] = {policy: [] for policy in POLICIES}
            for _ in range(ROUNDS):
                torch.append(torch_nanoseconds(program, text))
                for policy in POLICIES:
                    ours[policy].append(abi_nanoseconds(text, policy))
            figures[f"torch_native/{name}"] = Figure.median(torch, "ns")
            for policy in POLICIES:
                ratio = Figure.median(
                    [mine / other for mine, other in zip(ours[policy], torch, strict=True)], "of torch's"
                )
                figures[f"{policy}/{name}"] = Figure.median(ours[policy], "ns")
                figures[f"{policy}/{name}/ratio"] = ratio
                ratios.append(ratio.value)
                if (counted := instructions(text, policy)) is not None:
                    figures[f"{policy}/{name}/counted"] = Figure(counted, "instructions")
    figures["worst_ratio"] = Figure(max(ratios), "of torch's")
    return Figures("abi_against_torch", figures, Goal("worst_ratio", 0.25))
