"""Asks torch's own library for the figures of the example traces, and writes torch_figures.json anew.

    MEMLAKE_PEERLAB=FOLDER PYTHONPATH=tests .venv/bin/python tests/exact/make_torch_figures.py

FOLDER/build/replay is a program that replays a trace through torch 2.13.0's unmodified libc10_cuda on a CUDA runtime
that only keeps books, with every event complete when it is first asked for. Nobody needs it to run the tests.
"""

from __future__ import annotations

import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from helpers.torch_figures import FIGURES
from helpers.torch_library import TorchTrace, replay_program
from memlake.trace import example_traces, load_example

TABLE = Path(__file__).parent / "torch_figures.json"
GRANULE = 2 * 2**20
AMPLE = 160 * 2**30


SETTINGS = [
    *(f"max_split_size_mb:{mib}" for mib in (32, 128, 1024)),
    *(f"max_split_size_mb:64,max_non_split_rounding_mb:{mib}" for mib in (24, 64, 512)),
    *(f"large_segment_size_mb:{mib}" for mib in (12, 32, 64)),
    "large_segment_size_mb:64,max_split_size_mb:128",
    *(f"roundup_power2_divisions:{number}" for number in (2, 8, 16)),
    *(f"roundup_power2_divisions:[{numbers}]" for numbers in ("64:8,256:4", "256:1,512:2,1024:4,>:8", "2:16,>:2")),
    *(
        f"garbage_collection_threshold:{threshold},per_process_memory_fraction:{fraction}"
        for threshold, fraction in ((0.6, 0.9), (0.8, 0.95), (0.3, 0.99))
    ),
    *(f"per_process_memory_fraction:{fraction}" for fraction in (0.7, 0.85, 0.95)),
]
WITH_SETTINGS = (
    "infer_opt-30b_weight_streaming",
    "infer_sdxl_sizes",
    "train_opt-1.3b_recompute",
    "train_opt-13b_lora_offload",
)


def runs() -> list[tuple[str, float | None, str]]:
    """Every run: trace, capacity over the live peak (None: ample), configuration."""
    listed = [(name, over, "") for name in example_traces() for over in (None, 1.35, 1.2, 1.1, 1.05, 1.02, 1.005)]
    listed += [(name, over, setting) for name in WITH_SETTINGS for setting in SETTINGS for over in (1.5, 1.1)]
    return [
        (name, over, ",".join(filter(None, (f"expandable_segments:{is_expandable}", setting))))
        for name, over, setting in listed
        for is_expandable in (False, True)
    ]


def main() -> int:
    """Runs torch on everything, as many at once as there are cores."""
    program = replay_program()
    if program is None:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        traces = {name: load_example(name) for name in example_traces()}
        texts = {name: TorchTrace(trace, Path(folder, f"{name}.txt")) for name, trace in traces.items()}

        def row(run: tuple[str, float | None, str]) -> list[Any]:
            name, over, conf = run
            capacity = AMPLE if over is None else int(traces[name].peak_live * over) // GRANULE * GRANULE
            figures = texts[name].figures(program, capacity, conf)
            return [name, capacity, conf, *(figures[figure] for figure in FIGURES)]

        with ThreadPoolExecutor() as pool:
            rows = list(pool.map(row, runs()))
    head = {
        "what": "what torch's own allocator answers to the example traces; made by make_torch_figures.py",
        "torch": "2.13.0",
        "columns": ["trace", "capacity", "conf", *FIGURES],
    }
    lines = ",\n".join(json.dumps(row) for row in rows)
    TABLE.write_text(json.dumps(head, indent=1)[:-2] + f',\n "rows": [\n{lines}\n]}}\n')
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
