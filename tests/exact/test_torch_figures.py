"""PyTorch's two allocators on the example traces, with every option: each figure is what torch's own library answered.

torch_figures.json has the answers, and make_torch_figures.py asked for them.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from helpers.torch_figures import differences, replayed

from memlake import Trace
from memlake.trace import example_traces, load_example

TABLE = json.loads((Path(__file__).parent / "torch_figures.json").read_text())
RUNS = TABLE["runs"]
OPTIONS = {
    "max_split_size",
    "max_non_split_rounding",
    "large_segment_size",
    "roundup_power2_divisions",
    "garbage_collection_threshold",
}


@cache
def example(name: str) -> Trace:
    return load_example(name)


@pytest.mark.parametrize("is_expandable", [False, True], ids=["native", "expandable"])
@pytest.mark.parametrize("name", sorted({run["trace"] for run in RUNS}))
def test_every_figure_of_an_example_is_pytorchs(name, is_expandable):
    def wrong(run):
        expected = dict(zip(TABLE["figures"], run["figures"], strict=True))
        ours = replayed(example(name), run["capacity"], is_expandable, run["options"], run["fraction"])
        different = differences(ours, expected)
        return (run["capacity"], run["conf"], run["fraction"], different) if different else None

    runs = [run for run in RUNS if (run["trace"], run["is_expandable"]) == (name, is_expandable)]
    # Side by side: what else runs in the process must not matter.
    with ThreadPoolExecutor(2) as pool:
        assert [row for row in pool.map(wrong, runs) if row] == []


def test_the_table_covers_every_example_and_three_settings_of_every_option_in_both_allocators():
    for is_expandable in (False, True):
        runs = [run for run in RUNS if run["is_expandable"] == is_expandable]
        assert {run["trace"] for run in runs if not run["options"]} == set(example_traces())
        for option in OPTIONS:
            used = [run for run in runs if option in run["options"]]
            assert len({run["trace"] for run in used}) >= 3
            assert len({json.dumps(run["options"][option]) for run in used}) >= 3, option
        assert len({run["fraction"] for run in runs if not run["options"]} - {None}) >= 3


def test_the_table_has_runs_that_fit_and_runs_that_fail_in_both_allocators():
    failed = TABLE["figures"].index("failed_row")
    for is_expandable in (False, True):
        fits = {run["figures"][failed] is None for run in RUNS if run["is_expandable"] == is_expandable}
        assert fits == {False, True}
