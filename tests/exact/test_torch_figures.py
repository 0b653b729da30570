"""PyTorch's two allocators on the example traces, with every option: each figure is what torch's own library answered.

torch_figures.json has the answers, and make_torch_figures.py asked for them.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

import memlake
from helpers.torch_figures import FIGURES, differences, replayed
from memlake import Trace
from memlake.trace import example_traces, load_example

TABLE = json.loads((Path(__file__).parent / "torch_figures.json").read_text())
RUNS = [dict(zip(TABLE["columns"], row, strict=True)) for row in TABLE["rows"]]


@cache
def example(name: str) -> Trace:
    return load_example(name)


def is_expandable(run: dict[str, object]) -> bool:
    return memlake.policy(run["conf"]).is_expandable


@pytest.mark.parametrize("kind", ["caching", "expandable"])
@pytest.mark.parametrize("name", sorted({run["trace"] for run in RUNS}))
def test_every_figure_of_an_example_is_pytorchs(name, kind):
    def wrong(run):
        ours = replayed(example(name), run["capacity"], memlake.policy(run["conf"]))
        different = differences(ours, {figure: run[figure] for figure in FIGURES})
        return (run["capacity"], run["conf"], different) if different else None

    runs = [run for run in RUNS if run["trace"] == name and is_expandable(run) == (kind == "expandable")]
    # Side by side: what else runs in the process must not matter.
    with ThreadPoolExecutor(2) as pool:
        assert [row for row in pool.map(wrong, runs) if row] == []


OPTIONS = (
    "max_split_size_mb",
    "max_non_split_rounding_mb",
    "large_segment_size_mb",
    "roundup_power2_divisions",
    "roundup_power2_divisions:[",
    "garbage_collection_threshold",
    "per_process_memory_fraction",
)


@pytest.mark.parametrize("kind", [False, True], ids=["caching", "expandable"])
def test_the_table_covers_every_example_and_three_settings_of_every_option_on_three_of_them(kind):
    runs = [run for run in RUNS if is_expandable(run) == kind]
    assert {run["trace"] for run in runs if run["conf"] == f"expandable_segments:{kind}"} == set(example_traces())
    for option in OPTIONS:
        used = [run for run in runs if option in run["conf"]]
        assert len({run["trace"] for run in used}) >= 3
        assert len({run["conf"] for run in used}) >= 3
    assert {run["failed_row"] is None for run in runs} == {False, True}
