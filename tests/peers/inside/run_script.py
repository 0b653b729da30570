"""Runs a training or inference program inside the lab, once for each line of the standard input.

A line is the size of the device in bytes. Each run is a fork of this process, which has imported PyTorch and has not
started CUDA. It prints one JSON line: whether the program ran to its end, and PyTorch's own figures about it.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import torch
from inside import mode

FIGURES = {
    "live_peak": "allocated_bytes.all.peak",
    "held_peak": "reserved_bytes.all.peak",
    "requested_peak": "requested_bytes.all.peak",
    "allocations": "allocation.all.allocated",
    "retries": "num_alloc_retries",
    "ooms": "num_ooms",
}


def run(script: Path) -> dict[str, Any]:
    """Runs the program in this process."""
    mode.prepare()
    mode.install()
    begun = time.perf_counter()
    error = None
    try:
        runpy.run_path(str(script), run_name="__main__")
    except torch.OutOfMemoryError as shortage:
        error = f"OutOfMemoryError: {shortage}"
    except BaseException as other:
        traceback.print_exc()
        error = f"{type(other).__name__}: {other}"
    stats = torch.cuda.memory_stats()
    figures = {name: stats.get(key, 0) for name, key in FIGURES.items()}
    return {"error": error, **figures, "seconds": round(time.perf_counter() - begun, 2)}


def forked(script: Path, capacity: str) -> dict[str, Any]:
    """Runs the program in a fork, on a device of this size."""
    with tempfile.TemporaryDirectory() as folder:
        answer, log = Path(folder, "answer"), Path(folder, "log")
        child = os.fork()
        if child == 0:
            os.environ["FAKE_CUDA_BYTES"] = capacity
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 1)
            os.dup2(1, 2)
            os.chdir(folder)
            try:
                answer.write_text(json.dumps(run(script)))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if not answer.exists():
            code = os.waitstatus_to_exitcode(status)
            return {"error": f"exit code {code}: {log.read_text(errors='replace')[-1000:]}"}
        return json.loads(answer.read_text())


def main() -> int:
    """Answers each line."""
    script = Path(sys.argv[1]).resolve()
    if "transformers" in script.read_text():
        import transformers  # noqa: F401 - so that no run has to import it
    for line in sys.stdin:
        print(json.dumps(forked(script, line.strip())), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
