"""Loading a PyTorch snapshot against `pickle.load` of the same file in the same run: the time, and the peak of memory.

The snapshot is made here: 850,000 events whose stacks are like those of real ones. If MEMLAKE_SHARED names a folder
with snapshots of real GPUs, they are measured as well. They are small: a load of them takes milliseconds, of which two
do not depend on the file. Each load runs in a process of its own; the two readers take turns.
"""

import json
import os
import pickle
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, Figures, Goal

EVENTS = 850_000
PASSES = 5
MIB = 1024**2
# The memory that is in use before the load does not count: memlake imports NumPy.
PROGRAM = """
import json, pickle, resource, sys, time
import memlake, memlake.trace.loading
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
def by_pickle(path):
    with open(path, "rb") as file:
        return pickle.load(file)
load = {"pickle": by_pickle, "memlake": memlake.Trace.load}[sys.argv[1]]
before = peak()
start = time.perf_counter()
result = load(sys.argv[2])
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "bytes": peak() - before}))
"""


def make_snapshot(path: Path, num_events: int) -> None:
    """Writes a snapshot of a training job: each step allocates and frees, with a stack of 20 to 45 frames per event."""
    chance = random.Random(1)
    frames = [
        {
            "filename": f"/opt/venv/lib/site-packages/torch/nn/m{number % 60}.py",
            "line": number,
            "name": f"f{number % 300}",
        }
        for number in range(600)
    ]
    stacks = [[chance.choice(frames) for _ in range(chance.randrange(20, 45))] for _ in range(250)]
    events: list[dict[str, Any]] = []

    def event(action: str, address: int, size: int) -> None:
        time = 1_780_000_000_000_000 + 7 * len(events)
        # PyTorch makes a new list of frames for each event; the frames in it are shared.
        stack = list(chance.choice(stacks))
        events.append(
            {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time, "compile_context": "N/A",
             "user_metadata": "", "frames": stack}
        )  # fmt: skip

    base = 0x7F0000000000
    event("segment_alloc", base, 4096 * MIB)
    live: list[tuple[int, int]] = []
    while len(events) < num_events:
        place = chance.randrange(8000)
        live.append((base + place * 512 * 1024 + len(live) * 512, chance.randrange(1, 512 * 1024)))
        event("alloc", *live[-1])
        if len(live) > 1000:
            address, size = live.pop(chance.randrange(len(live)))
            event("free_requested", address, size)
            event("free_completed", address, size)
    blocks = [{"address": base, "size": 4096 * MIB, "requested_size": 0, "state": "inactive", "frames": []}]
    segment = {
        "device": 0, "address": base, "total_size": 4096 * MIB, "allocated_size": 0, "active_size": 0,
        "requested_size": 0, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
        "frames": [], "blocks": blocks,
    }  # fmt: skip
    snapshot = {
        "segments": [segment],
        "device_traces": [events],
        "allocator_settings": {"expandable_segments": False},
        "external_annotations": [],
    }
    with path.open("wb") as file:
        pickle.dump(snapshot, file, protocol=4)


def real_snapshots() -> Iterator[Path]:
    """The snapshots of real GPUs, if there are any."""
    folder = os.environ.get("MEMLAKE_SHARED")
    if folder:
        yield from sorted(Path(folder, "snapshots").glob("*.pickle"))


def load(reader: str, path: Path) -> dict[str, float]:
    """Seconds and peak bytes of one load in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, reader, str(path)], capture_output=True, text=True, check=True
    )
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


@cache
def run() -> dict[str, dict[str, list[dict[str, float]]]]:
    """By snapshot and by reader: what each pass measured. The synthetic snapshot is the first."""
    measured: dict[str, dict[str, list[dict[str, float]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        synthetic = Path(folder, "synthetic.pickle")
        # Another process makes the file, so that this one does not hold the events while it measures.
        maker = f"from benchmarks.snapshot_loading import *; make_snapshot(Path({str(synthetic)!r}), {EVENTS})"
        subprocess.run([sys.executable, "-c", maker], check=True)
        for path in (synthetic, *real_snapshots()):
            passes = measured[path.stem] = {"pickle": [], "memlake": []}
            for _ in range(PASSES):
                for reader, found in passes.items():
                    found.append(load(reader, path))
            passes["file"] = [{"bytes": path.stat().st_size}]
    return measured


def ratios(key: str) -> dict[str, list[float]]:
    """By snapshot: memlake's figure divided by that of `pickle.load` in the same pass."""
    return {
        name: [ours[key] / max(theirs[key], 1) if key == "bytes" else ours[key] / theirs[key]
               for ours, theirs in zip(passes["memlake"], passes["pickle"], strict=True)]
        for name, passes in run().items()
    }  # fmt: skip


def measure_time() -> Figures:
    """Times as ratios; of the synthetic snapshot also in seconds."""
    synthetic = run()["synthetic"]
    figures = {name: Figure.median(passes, "of pickle.load") for name, passes in ratios("seconds").items()}
    figures["synthetic_seconds"] = Figure.median([one["seconds"] for one in synthetic["memlake"]], "s")
    figures["synthetic_pickle_seconds"] = Figure.median([one["seconds"] for one in synthetic["pickle"]], "s")
    figures["synthetic_file"] = Figure(synthetic["file"][0]["bytes"] / 1e6, "MB")
    return Figures("snapshot_loading_time", figures, Goal("synthetic", 1.5))


def measure_memory() -> Figures:
    """Peaks as ratios; of the synthetic snapshot also in megabytes."""
    # The growth of a process that loads a small file is that of a few pages, so only large files are compared.
    large = {
        name: passes
        for name, passes in ratios("bytes").items()
        if statistics.median(one["bytes"] for one in run()[name]["pickle"]) >= 8 * MIB
    }
    synthetic = run()["synthetic"]
    figures = {name: Figure.median(passes, "of pickle.load") for name, passes in large.items()}
    figures["synthetic_peak"] = Figure.median([one["bytes"] / 1e6 for one in synthetic["memlake"]], "MB")
    figures["synthetic_pickle_peak"] = Figure.median([one["bytes"] / 1e6 for one in synthetic["pickle"]], "MB")
    return Figures("snapshot_loading_memory", figures, Goal("synthetic", 1.2))
