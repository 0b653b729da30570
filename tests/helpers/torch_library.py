"""PyTorch's own allocator, run without a GPU on a trace, where a build of it is at hand.

The build is that of a fake CUDA runtime under torch's unmodified libc10_cuda: a program `replay` that takes a trace as
text and prints its figures. MEMLAKE_PEERLAB names the folder with `build/replay`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from helpers.torch_figures import CALLS
from memlake.trace import Op

if TYPE_CHECKING:
    from memlake import Trace

SEEN = (Op.ALLOCATE, Op.FREE, Op.RECORD_STREAM, Op.EMPTY_CACHE)


def replay_program() -> Path | None:
    """The program; None if there is none."""
    folder = os.environ.get("MEMLAKE_PEERLAB")
    program = Path(folder, "build", "replay") if folder else None
    return program if program is not None and program.exists() else None


class TorchTrace:
    """A trace as the program reads it; rows that an allocator does not see, it skips."""

    def __init__(self, trace: Trace, path: Path) -> None:
        """Writes the text to `path`, which ends in .txt."""
        self.rows = np.flatnonzero(np.isin(trace.op, SEEN))
        self.path = path
        trace.save(path)

    def figures(self, program: Path, capacity: int, conf: str, *, goes_on: bool = False) -> dict[str, int | None]:
        """What torch's library answers, under our names."""
        said = self.run(program, capacity, conf, *(["-k"] if goes_on else []))
        failed = int(said["first_oom_op"])
        return {
            "peak_requested": int(said["peak_requested"]),
            "peak_allocated": int(said["peak_allocated"]),
            "peak_held": int(said["peak_reserved"]),
            "end_held": int(said["end_reserved"]),
            "failed_row": None if failed < 0 else int(self.rows[failed]),
            "ooms": int(said["num_ooms"]),
            "retries": int(said["num_alloc_retries"]),
            **{ours: int(said.get(f"calls_{torch}", 0)) for ours, torch in CALLS.items()},
        }

    def run(self, program: Path, capacity: int, conf: str, *options: str) -> dict[str, str]:
        """All that the program prints, by name."""
        environment = {**os.environ, "FAKE_CUDA_BYTES": str(capacity), "PYTORCH_ALLOC_CONF": conf}
        command = [str(program), *options, str(self.path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{conf!r} at {capacity}: {done.stderr}")
        pairs = (line.split(maxsplit=1) for line in done.stdout.splitlines())
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
