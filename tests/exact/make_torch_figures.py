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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.torch_figures import FIGURES
from helpers.torch_library import TorchTrace, replay_program

from memlake.trace import example_traces, load_example

TABLE = Path(__file__).parent / "torch_figures.json"
MIB = 1024**2
GRANULE = 2 * MIB
AMPLE = 160 * 1024 * MIB


@dataclass(frozen=True)
class Setting:
    """One setting of the options: as torch reads it, and as the core takes it."""

    conf: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    fraction: float | None = None


def divisions(*runs: tuple[int, int]) -> list[int]:
    """The table of 16 entries for 1 MiB, 2 MiB, ... from runs of (how many, which number)."""
    table = [number for count, number in runs for _ in range(count)]
    assert len(table) == 16
    return table


PLAIN = Setting()
SETTINGS = [
    *(Setting(f"max_split_size_mb:{mib}", {"max_split_size": mib * MIB}) for mib in (32, 128, 1024)),
    *(
        Setting(
            f"max_split_size_mb:64,max_non_split_rounding_mb:{mib}",
            {"max_split_size": 64 * MIB, "max_non_split_rounding": mib * MIB},
        )
        for mib in (24, 64, 512)
    ),
    *(Setting(f"large_segment_size_mb:{mib}", {"large_segment_size": mib * MIB}) for mib in (12, 32, 64)),
    Setting(
        "large_segment_size_mb:64,max_split_size_mb:128",
        {"large_segment_size": 64 * MIB, "max_split_size": 128 * MIB},
    ),
    *(
        Setting(f"roundup_power2_divisions:{number}", {"roundup_power2_divisions": divisions((16, number))})
        for number in (2, 8, 16)
    ),
    # The first entry counts for everything below it; what is not named between two entries is not rounded.
    Setting(
        "roundup_power2_divisions:[64:8,256:4]",
        {"roundup_power2_divisions": divisions((7, 8), (1, 0), (1, 4), (7, 0))},
    ),
    Setting(
        "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
        {"roundup_power2_divisions": divisions((9, 1), (1, 2), (1, 4), (5, 8))},
    ),
    Setting(
        "roundup_power2_divisions:[2:16,>:2]",
        {"roundup_power2_divisions": divisions((2, 16), (14, 2))},
    ),
    *(
        Setting(f"garbage_collection_threshold:{threshold}", {"garbage_collection_threshold": threshold}, fraction)
        for threshold, fraction in ((0.6, 0.9), (0.8, 0.95), (0.3, 0.99))
    ),
    *(Setting("", {}, fraction) for fraction in (0.7, 0.85, 0.95)),
]
WITH_SETTINGS = (
    "infer_opt-30b_weight_streaming",
    "infer_sdxl_sizes",
    "train_opt-1.3b_recompute",
    "train_opt-13b_lora_offload",
)


def runs() -> list[tuple[str, float | None, bool, Setting]]:
    """Every run: trace, capacity over the live peak (None: ample), expandable or not, setting."""
    plain = [
        (name, over, is_expandable, PLAIN)
        for name in example_traces()
        for is_expandable in (False, True)
        for over in (None, 1.35, 1.2, 1.1, 1.05, 1.02, 1.005)
    ]
    with_settings = [
        (name, over, is_expandable, setting)
        for name in WITH_SETTINGS
        for is_expandable in (False, True)
        for setting in SETTINGS
        for over in (1.5, 1.1)
    ]
    return plain + with_settings


def main() -> int:
    """Runs torch on everything, as many at once as there are cores."""
    program = replay_program()
    if program is None:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        traces = {name: load_example(name) for name in example_traces()}
        texts = {name: TorchTrace(trace, Path(folder, f"{name}.txt")) for name, trace in traces.items()}

        def row(run: tuple[str, float | None, bool, Setting]) -> dict[str, Any]:
            name, over, is_expandable, setting = run
            capacity = AMPLE if over is None else int(traces[name].peak_live * over) // GRANULE * GRANULE
            conf = ",".join(filter(None, (setting.conf, "expandable_segments:True" if is_expandable else "")))
            figures = texts[name].figures(program, capacity, conf, setting.fraction)
            return {
                "trace": name,
                "capacity": capacity,
                "is_expandable": is_expandable,
                "conf": conf,
                "options": setting.options,
                "fraction": setting.fraction,
                "figures": [figures[figure] for figure in FIGURES],
            }

        with ThreadPoolExecutor() as pool:
            rows = list(pool.map(row, runs()))
    head = {
        "what": "what torch's own allocator answers to the example traces; made by make_torch_figures.py",
        "torch": "2.13.0",
        "figures": FIGURES,
    }
    lines = ",\n".join(json.dumps(row) for row in rows)
    TABLE.write_text(json.dumps(head, indent=1)[:-2] + f',\n "runs": [\n{lines}\n]}}\n')
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
