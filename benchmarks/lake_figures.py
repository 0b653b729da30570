"""What `lake` reaches on each trace, beside expandable segments; compared with the table in lake_figures.json.

The six example traces always, and the large ones where MEMLAKE_SHARED (or ../shared) has them. Everything but the
nanoseconds is a count or a model, so the same code gives the same figures on any machine: the tolerances are for
changes of the policy. `python -m benchmarks.lake_figures --write` renews the table, and the one in docs/reference/.
"""

import argparse
import json
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import memlake
from benchmarks.figures import RESULTS, Figure, Figures, Goal
from benchmarks.lake_bars import bars, markdown, misses, worse
from memlake import Trace
from memlake.replaying import ReplayResult
from memlake.trace import example_traces, load_example

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "benchmarks" / "lake_figures.json"
PAGE = ROOT / "docs" / "reference" / "lake_figures.md"
GRANULE = 2 * 2**20
POLICIES = {
    "lake": "lake,aliasing:none",
    "whole": "lake,aliasing:whole",
    "prefix": "lake,aliasing:prefix",
    "expandable": "expandable",
}
"""`lake` as on a device about which nothing is known; then with second mappings of whole chunks, and of first parts."""
NEW_MEMORY_US_PER_MIB = 5.4
"""By the cost table, in chunks of 20 MiB: creating, mapping and access."""
TIGHT, ROOMY, LAG = 1.02, 1.5, "lag:2000"
FEWEST_STEPS = 9
"""Of a trace that can be called warm after its first third."""


def sources() -> dict[str, Callable[[], Trace]]:
    """How to load each trace, by its name."""
    found: dict[str, Callable[[], Trace]] = {}
    for name in example_traces():
        found[f"example: {name}"] = partial(load_example, name)
    shared = Path(os.environ.get("MEMLAKE_SHARED", ROOT.parent / "shared"))
    for path in sorted((shared / "traces").glob("*.npz")):
        found[path.stem] = partial(Trace.load, path)
    return found


def on(trace: Trace, policy: str, over_live: float, events: str = "immediate") -> ReplayResult:
    """One replay on a device of so much memory over the live peak, in whole granules."""
    return memlake.replay(trace, policy, int(trace.peak_live * over_live) // GRANULE * GRANULE, events=events)


def since(trace: Trace, policy: str, row: int, whole: ReplayResult) -> tuple[float, int]:
    """Driver time and calls for memory from a row to the end, with room: the whole less the rows before."""
    capacity = whole.capacity
    before = memlake.replay(trace[:row], policy, capacity)
    return (
        (whole.modelled_driver_ms or 0) - (before.modelled_driver_ms or 0),
        memory_calls(whole) - memory_calls(before),
    )


def memory_calls(result: ReplayResult) -> int:
    """Calls that make, map, unmap or release memory, or set access."""
    about = ("cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemAddress")
    return sum(count for call, count in result.driver_calls.items() if call.startswith(about))


def figures_of(trace: Trace, policy: str, is_fixed: bool) -> dict[str, Any]:
    """Everything about one policy on one trace."""
    needed = memlake.fit(trace, policy)[0]
    tight = on(trace, policy, TIGHT)
    roomy = on(trace, policy, ROOMY)
    lagging = on(trace, policy, TIGHT, LAG)
    steps = trace.steps
    later = steps[len(steps) // 3 :]
    warm = None
    if len(steps) >= FEWEST_STEPS:
        growth = (trace.peak_live - trace[: later[0].start].peak_live) / 2**20 * NEW_MEMORY_US_PER_MIB / 1000
        warm = max(since(trace, policy, later[0].start, roomy)[0] - growth, 0) / len(later)
    pressed = tight if tight.fits else needed.result
    late = since(trace, policy, later[0].start if later else len(trace) // 3, pressed)[0]
    quiet = next((step.start for step in steps if step.number > 3), None) if is_fixed else None
    return {
        "fit": round(needed.over_live or 0, 4),
        "runs_at_1.02": tight.fits,
        "cold_ms": round((pressed.modelled_driver_ms or 0) - late, 1),
        "late_ms": round(late, 1),
        "late_steps": len(later),
        "longest_ms": round(pressed.longest_request_ms or 0, 2),
        "handles": pressed.driver_calls.get("cuMemCreate", 0),
        "held": round(roomy.peak_held / trace.peak_live, 4),
        "warm_ms_per_step": None if warm is None else round(warm, 3),
        "calls_after_step_3": None if quiet is None else since(trace, policy, quiet, roomy)[1],
        "host_waits": lagging.host_waits,
        "retries": lagging.num_alloc_retries,
        "runs_with_lag": lagging.fits,
        "ns_per_row": round(roomy.ns_per_event, 1),
    }


def measured() -> dict[str, dict[str, Any]]:
    """The table as it is now, on all cores: replays hold no lock of Python's."""
    loaders = sources()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        futures = {}
        for name, load in loaders.items():
            trace = load()
            for policy in POLICIES:
                futures[name, policy] = pool.submit(figures_of, trace, POLICIES[policy], name.endswith("_fixed"))
        table: dict[str, dict[str, Any]] = {name: {} for name in loaders}
        for (name, policy), future in futures.items():
            table[name][policy] = future.result()
    return table


def committed() -> dict[str, dict[str, Any]]:
    """The table that the project keeps."""
    table: dict[str, dict[str, Any]] = json.loads(TABLE.read_text())["traces"] if TABLE.exists() else {}
    return table


def as_json(table: Mapping[str, Mapping[str, Any]], keeps_times: bool) -> str:
    """Figures and bars; nanoseconds depend on the machine, so the project's table has none."""
    rows = {}
    for name, row in table.items():
        kept = {
            policy: {key: value for key, value in row[policy].items() if keeps_times or key != "ns_per_row"}
            for policy in POLICIES
        }
        rows[name] = {**kept, "bars_met": bars(row)}
    return json.dumps({"misses": misses(table), "traces": rows}, indent=1) + "\n"


def measure() -> Figures:
    """How many figures are worse than in the table, how many bars are missed, and what the figures come to."""
    now = measured()
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "lake_figures-table.json").write_text(as_json(now, keeps_times=True))
    sentences = list(worse(now, committed()))
    for sentence in sentences:
        print(f"lake_figures: worse: {sentence}")
    lake = [row["lake"] for row in now.values()]
    prefix = [row["prefix"] for row in now.values()]
    peer = [row["expandable"] for row in now.values()]
    figures = {
        "traces": Figure(len(now), "traces"),
        "worse_figures": Figure(len(sentences), "figures"),
        "missed_bars": Figure(len(misses(now)), "bars"),
        "mean_fit": Figure(sum(row["fit"] for row in lake) / len(lake), "of the live peak"),
        "mean_fit_prefix": Figure(sum(row["fit"] for row in prefix) / len(prefix), "of the live peak"),
        "cold_driver_time": Figure(
            sum(row["cold_ms"] for row in lake) / sum(row["cold_ms"] for row in peer), "of expandable's"
        ),
        "late_driver_time": Figure(
            sum(row["late_ms"] for row in lake) / sum(row["late_ms"] for row in peer), "of expandable's"
        ),
        "handles": Figure(sum(row["handles"] for row in lake) / sum(row["handles"] for row in peer), "of expandable's"),
        "mean_time_per_row": Figure(sum(row["ns_per_row"] for row in lake) / len(lake), "ns"),
    }
    return Figures("lake_figures", figures, Goal("worse_figures", 0))


def main() -> int:
    """Prints the table for people; with --write it becomes the project's."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lake_figures", description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew lake_figures.json and the table in docs/reference/")
    arguments = parser.parse_args()
    now = measured()
    for sentence in worse(now, committed()):
        print(f"worse: {sentence}")
    table = {**committed(), **now}  # what was not measured here stays
    print(markdown(table))
    if arguments.write:
        TABLE.write_text(as_json(table, keeps_times=False))
        before, _, rest = PAGE.read_text().partition("<!-- the table -->\n")
        behind = re.split(r"(?=<!-- end of the table -->)", rest)[-1]
        PAGE.write_text(f"{before}<!-- the table -->\n\n{markdown(table)}\n{behind}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
