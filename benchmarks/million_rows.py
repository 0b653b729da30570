"""A trace of a million rows under every policy: how long that takes, and how much memory, loading included.

The trace is an example repeated end to end. It is written to a file once and measured in a process of its own, which
does what `memlake compare` does.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, Figures, Goal
from memlake import Trace
from memlake.trace import Op, load_example

ROWS = 1_000_000
PROGRAM = """
import json, sys, time
start = time.perf_counter()
import memlake
trace = memlake.Trace.load(sys.argv[1])
loaded = time.perf_counter()
comparison = memlake.compare(trace, int(trace.peak_live * 1.5))
seconds = {result.label: result.ns_per_event * result.rows / 1e9 for result in comparison}
print(json.dumps({"load": loaded - start, **seconds, "total": time.perf_counter() - start}))
"""


def repeated(trace: Trace, rows: int) -> Trace:
    """The trace again and again, each time with everything freed at its end, cut to a number of rows."""
    freed = set(trace.id[trace.op == Op.FREE].tolist())
    left = np.array([id for id in range(trace.num_allocations) if id not in freed], np.uint32)
    op = np.concatenate([trace.op, np.full(len(left), Op.FREE, np.uint8)])
    id = np.concatenate([trace.id, left])
    nbytes = np.concatenate([trace.bytes, np.zeros(len(left), np.uint64)])
    stream = np.concatenate([trace.stream, np.zeros(len(left), np.uint16)])
    is_kept = op != Op.STEP  # their numbers would not rise
    op, id, nbytes, stream = op[is_kept], id[is_kept], nbytes[is_kept], stream[is_kept]
    times = -(-rows // len(op))
    ids = np.concatenate([id.astype(np.uint64) + number * trace.num_allocations for number in range(times)])
    return Trace(np.tile(op, times)[:rows], ids[:rows], np.tile(nbytes, times)[:rows], np.tile(stream, times)[:rows])


def run() -> tuple[dict[str, float], float]:
    """Seconds by part, and the peak of resident memory in MB (10^6 bytes)."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "million.npz")
        repeated(load_example("train_opt-13b_lora_offload"), ROWS).save(file)
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(file)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            raise RuntimeError("the comparison failed")
    return json.loads(said), usage.ru_maxrss * 1024 / 1e6


def measure_time() -> Figures:
    """Seconds, of each part and altogether."""
    seconds, _ = run()
    return Figures("million_rows_time", {name: Figure(value, "s") for name, value in seconds.items()}, Goal("total", 3))


def measure_memory() -> Figures:
    """The peak of resident memory."""
    _, resident = run()
    return Figures("million_rows_memory", {"peak_resident": Figure(resident, "MB")}, Goal("peak_resident", 500))
