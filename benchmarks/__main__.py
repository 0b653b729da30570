"""python -m benchmarks [NAME]...: runs the named benchmarks, or all; a line each, and a file in benchmarks/results/."""

import argparse

from benchmarks import (
    abi_against_torch,
    abi_threads,
    custom_pool,
    demo_memory,
    emulator_cycle,
    emulator_queue,
    emulator_start,
    lake_figures,
    million_rows,
    pool_calls,
    publishing,
    python_call,
    pytorch_figures,
    replay_against_torch,
    replay_speed,
    report_page,
    sharing,
    snapshot_loading,
    sweeps,
    torch_speed,
)
from benchmarks.figures import SkippedError

BENCHMARKS = {
    "emulator_cycle": emulator_cycle.measure,
    "emulator_start": emulator_start.measure,
    "emulator_copy": emulator_queue.measure_copies,
    "emulator_launch": emulator_queue.measure_launches,
    "python_call": python_call.measure,
    "pool_calls": pool_calls.measure,
    "custom_pool": custom_pool.measure,
    "sharing": sharing.measure,
    "publishing": publishing.measure,
    "demo_memory": demo_memory.measure,
    "lake_figures": lake_figures.measure,
    "replay_speed": replay_speed.measure,
    "replay_against_torch": replay_against_torch.measure,
    "abi_against_torch": abi_against_torch.measure,
    "abi_threads": abi_threads.measure,
    "snapshot_loading_time": snapshot_loading.measure_time,
    "snapshot_loading_memory": snapshot_loading.measure_memory,
    "million_rows_time": million_rows.measure_time,
    "million_rows_memory": million_rows.measure_memory,
    "report_page": report_page.measure,
    "sweep_cpu": sweeps.measure_cpu,
    "sweep_overhead": sweeps.measure_overhead,
    "torch_speed": torch_speed.measure,
    "pytorch_figures": pytorch_figures.measure,
}


def main() -> int:
    """A missed goal is reported, not an error: the figures depend on the machine."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    names = parser.parse_args().names or list(BENCHMARKS)
    if unknown := [name for name in names if name not in BENCHMARKS]:
        parser.error(f"no benchmark is named {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    for name in names:
        try:
            figures = BENCHMARKS[name]()
        except SkippedError as reason:
            print(f"{name}: skipped: {reason}")
            continue
        print(figures.line())
        figures.write()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
