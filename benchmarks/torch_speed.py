"""CPU time of memlake as PyTorch's allocator beside PyTorch's own, in one run, inside the lab.

Two processes of the lab's Python live side by side, one with PyTorch's native allocator and one with memlake. They are
asked in turns for the same work: allocating and freeing without a tensor (raw), `torch.empty` and its end, and a step
of a GPT. CPU time of the process: median and minimum over all passes, and the median of the rounds' ratios.
`python -m benchmarks torch_speed` prints the figures and writes them as JSON. `empty/saved` and `raw/saved` are for one
size: what `torch.empty` saves should be what the allocation saves.
"""

import json
import statistics
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.example_replays import one_core
from benchmarks.figures import Figure, Figures, Goal
from benchmarks.peerlab import Peerlab, find_peerlab

EMPTY_SIZE = 4 * 2**20
RAW_SIZES = (512, 100_000, EMPTY_SIZE, 64 * 2**20)
WORK = {**{f"raw_{size}": f"raw {size}" for size in RAW_SIZES}, "empty": "empty", "gpt_step": "step"}
ROUNDS = 15
MODES = ("native", "memlake")
RAW_GOAL = 0.8
"""The most that raw allocation and free may take of native's time, in the worst size."""


class Worker:
    """A process of the lab that does work when it is asked."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Takes a started process with pipes."""
        self._process = process

    def nanoseconds(self, work: str) -> list[float]:
        """The passes of one kind of work."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the worker has no pipes")
        self._process.stdin.write(f"{work}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the worker died at {work!r}")
        passes: list[float] = json.loads(answer)
        return passes


@contextmanager
def worker(lab: Peerlab, mode: str) -> Iterator[Worker]:
    """A worker that ends with the block."""
    with subprocess.Popen(
        lab.command("-m", "inside.run_speed"),
        env=lab.environment(mode),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Worker(process)
        if process.stdin is not None:
            process.stdin.close()


def measure() -> Figures:
    """Median and minimum of both for each kind of work, and their ratios."""
    lab = find_peerlab()
    passes: dict[tuple[str, str], list[float]] = {}
    rounds: dict[str, list[float]] = {name: [] for name in WORK}
    with one_core(), ExitStack() as stack:
        workers = {mode: stack.enter_context(worker(lab, mode)) for mode in MODES}
        for number in range(ROUNDS):
            for name, work in WORK.items():
                found = {}
                for mode in MODES if number % 2 == 0 else reversed(MODES):
                    found[mode] = workers[mode].nanoseconds(work)
                    passes.setdefault((name, mode), []).extend(found[mode])
                rounds[name].append(statistics.median(found["memlake"]) / statistics.median(found["native"]))
    figures = {}
    for name in WORK:
        for mode in MODES:
            figures[f"{name}/{mode}"] = Figure.median(passes[name, mode], "ns")
            figures[f"{name}/{mode}/least"] = Figure(min(passes[name, mode]), "ns")
        figures[f"{name}/ratio"] = Figure.median(rounds[name], "of native's")
    saved = {name: figures[f"{name}/native"].value - figures[f"{name}/memlake"].value for name in WORK}
    figures["empty/saved"] = Figure(saved["empty"], "ns")
    figures["raw/saved"] = Figure(saved[f"raw_{EMPTY_SIZE}"], "ns")
    figures["worst_raw_ratio"] = Figure(max(figures[f"raw_{size}/ratio"].value for size in RAW_SIZES), "of native's")
    return Figures("torch_speed", figures, Goal("worst_raw_ratio", RAW_GOAL))


if __name__ == "__main__":
    result = measure()
    print(result.line())
    print(result.write())
