"""The figures of lake on the examples are counts and models, so they are the same on every machine."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.lake_bars import worse
from benchmarks.lake_figures import POLICIES, committed, figures_of

from memlake.trace import example_traces, load_example


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, Any]]:
    return committed()


@pytest.mark.parametrize("example", example_traces())
def test_no_figure_of_lake_is_worse_than_in_the_table(example: str, table: dict[str, dict[str, Any]]) -> None:
    trace = load_example(example)
    row = {column: figures_of(trace, policy, is_fixed=False) for column, policy in POLICIES.items()}
    name = f"example: {example}"
    assert name in table
    assert list(worse({name: row}, table)) == []


@pytest.mark.parametrize("level", ["lake", "whole", "prefix"])
@pytest.mark.parametrize(
    ("figure", "more"), [("fit", 0.01), ("cold_ms", 100), ("late_ms", 100), ("longest_ms", 20), ("handles", 500)]
)
def test_a_worse_figure_of_each_level_is_named(
    level: str, figure: str, more: float, table: dict[str, dict[str, Any]]
) -> None:
    name = "example: train_gpt-1.4b"
    old = table[name]
    row = {**old, level: {**old[level], figure: old[level][figure] + more}}
    assert any(f"{name}: {figure} of {level} was" in sentence for sentence in worse({name: row}, table))
