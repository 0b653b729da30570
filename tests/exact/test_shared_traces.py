"""PyTorch's two allocators on the large traces, which are not part of the project; skipped where they are not at hand.

Each row of the table is one run of torch 2.13.0's own library: a trace, an allocator, a capacity.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from helpers.torch_figures import CALLS, differences, replayed
from memlake import Trace, fit
from memlake.policies import CachingOptions, ExpandableOptions
from memlake.trace import Op

POLICIES = {"native": CachingOptions(), "expandable": ExpandableOptions()}
# Calls whose number the table has. It counts no freed addresses.
COUNTED = {ours: torch for ours, torch in CALLS.items() if ours != "cuMemAddressFree"}


@pytest.fixture(scope="module")
def table(shared):
    return json.loads((shared / "traces" / "pytorch-2.13.json").read_text())


def seen_rows(trace):
    """The rows that the table counts: what an allocator sees of non-empty allocations."""
    is_empty = (trace.op == Op.ALLOCATE) & (trace.bytes == 0)
    is_seen = np.isin(trace.op, (Op.ALLOCATE, Op.FREE, Op.RECORD_STREAM))
    return np.flatnonzero(is_seen & ~np.isin(trace.id, trace.id[is_empty]))


def expected(row, seen):
    return {
        "peak_requested": row["peak_requested"],
        "peak_allocated": row["peak_allocated"],
        "peak_held": row["peak_reserved"],
        "end_held": row["end_reserved"],
        "failed_row": None if row["first_oom_op"] < 0 else int(seen[row["first_oom_op"]]),
        "ooms": row["num_ooms"],
        "retries": row["num_alloc_retries"],
        **{ours: row["calls"].get(torch, 0) for ours, torch in COUNTED.items()},
    }


def test_every_row_of_the_table_is_what_a_replay_gives(shared, table):
    def wrong_rows(name):
        (path,) = (path for path in (shared / "traces").iterdir() if path.stem == name)
        trace = Trace.load(path)
        seen = seen_rows(trace)
        wrong = []
        for row in table:
            if row["trace"] != name:
                continue
            ours = replayed(trace, row["capacity"], POLICIES[row["config"]])
            if different := differences(ours, expected(row, seen)):
                wrong.append((name, row["config"], row["capacity"], different))
        return wrong

    # A replay holds no lock of Python's, so traces run side by side.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = [row for rows in pool.map(wrong_rows, sorted({row["trace"] for row in table})) for row in rows]
    assert wrong == []


def test_the_table_has_every_trace_under_both_allocators(shared, table):
    traces = {path.stem for path in (shared / "traces").iterdir() if path.suffix in (".npz", ".txt")}
    for config in ("native", "expandable"):
        assert {row["trace"] for row in table if row["config"] == config} == traces


def test_the_smallest_device_is_the_one_that_torchs_library_needs(shared):
    table = json.loads((shared / "traces" / "pytorch-2.13-fit.json").read_text())
    for name, expected_fit in table.items():
        (path,) = (path for path in (shared / "traces").iterdir() if path.stem == name)
        found = fit(Trace.load(path), [CachingOptions(), ExpandableOptions()])
        for config, result in zip(("native", "expandable"), found, strict=True):
            # The table has four decimals, and both stop their search within 0.1 % of the live peak.
            assert result.over_live == pytest.approx(expected_fit[config], abs=0.002), (name, config)
