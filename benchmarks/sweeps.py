"""What sweeps cost: CPU time of all processes against a serial run, time on the clock, and the overhead per task."""

import contextlib
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import memlake
from benchmarks.figures import Figure, Figures, Goal
from memlake.trace import Op

NUM_FILES = 64
NUM_ROWS = 60_000
SIZES = ("1GiB", "1200MiB")
POLICIES = ("lake", "caching", "expandable", "stitch", "direct")
PASSES = 3

FEW_TASKS, MANY_TASKS = 40, 340
"""The overhead is the difference between two sweeps of tiny files, so that starting the workers does not count."""
TINY = 10

MIB = 2**20


def measure_cpu() -> Figures:
    """CPU time of a sweep on all cores and of the same replays in this process, one after the other."""
    passes: dict[str, list[float]] = {"cpu": [], "clock": []}
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), NUM_FILES, NUM_ROWS)
        for _ in range(PASSES):
            serial_cpu, serial_clock = _timed(lambda: _serial(folder))
            sweep_cpu, sweep_clock = _timed(lambda: memlake.sweep(folder, SIZES, POLICIES))
            passes["cpu"].append(sweep_cpu / serial_cpu)
            passes["clock"].append(sweep_clock / serial_clock)
    figures = {
        "CPU time over serial": Figure.median(passes["cpu"], "x"),
        "clock over serial": Figure.median(passes["clock"], "x"),
        "serial CPU time": Figure(serial_cpu, "s"),
        "cores": Figure(len(os.sched_getaffinity(0)), ""),
    }
    return Figures("sweep_cpu", figures, Goal("CPU time over serial", 1.1))


def measure_overhead() -> Figures:
    """CPU time of a task beyond its replay on the local engine; the clock for a whole task on each installed engine."""
    with tempfile.TemporaryDirectory() as few, tempfile.TemporaryDirectory() as many:
        _write(Path(few), FEW_TASKS, TINY)
        _write(Path(many), MANY_TASKS, TINY)
        serial_cpu, _ = map(
            statistics.median, _per_task(lambda folder: _serial(folder, ("1GiB",), ("lake",)), few, many)
        )
        figures: dict[str, Figure] = {}
        for engine, cluster in _engines():
            with cluster as address:

                def sweep(folder: str, engine: str = engine, address: str | None = address) -> None:
                    memlake.sweep(folder, "1GiB", "lake", engine=engine, address=address)

                cpu, clock = _per_task(sweep, few, many)
            if engine == "local":
                figures["local, CPU time"] = Figure.median([(one - serial_cpu) * 1e3 for one in cpu], "ms")
            figures[f"{engine}, whole task by the clock"] = Figure.median([one * 1e3 for one in clock], "ms")
    return Figures("sweep_overhead", figures, Goal("local, CPU time", 5))


def _engines() -> Iterator[tuple[str, contextlib.AbstractContextManager[str | None]]]:
    yield "local", contextlib.nullcontext()
    if find_spec("distributed"):
        yield "dask", _dask()
    if find_spec("ray"):
        yield "ray", _ray()


@contextlib.contextmanager
def _dask() -> Iterator[str]:
    with import_module("distributed").LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


@contextlib.contextmanager
def _ray() -> Iterator[str]:
    # By default Ray would make a token for this cluster and leave it in the home of the user.
    os.environ["RAY_AUTH_MODE"] = "disabled"
    ray = import_module("ray")
    context = ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        yield context.address_info["gcs_address"]
    finally:
        ray.shutdown()


def _per_task(run: Callable[[str], object], few: str, many: str) -> tuple[list[float], list[float]]:
    """Seconds of CPU and of the clock for one task more, in each pass."""
    cpu, clock = [], []
    for _ in range(PASSES):
        small, large = _timed(lambda: run(few)), _timed(lambda: run(many))
        cpu.append((large[0] - small[0]) / (MANY_TASKS - FEW_TASKS))
        clock.append((large[1] - small[1]) / (MANY_TASKS - FEW_TASKS))
    return cpu, clock


def _timed(run: Callable[[], object]) -> tuple[float, float]:
    """CPU time of this process and of its ended children, and the time on the clock, in seconds."""
    begin_cpu, begin = _cpu(), time.perf_counter()
    run()
    return _cpu() - begin_cpu, time.perf_counter() - begin


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _serial(folder: str, sizes: tuple[str, ...] = SIZES, policies: tuple[str, ...] = POLICIES) -> None:
    for path in Path(folder).iterdir():
        trace = memlake.Trace.load(path)
        for size in sizes:
            for policy in policies:
                memlake.replay(trace, policy, size)


def _write(folder: Path, num_files: int, num_rows: int) -> None:
    for rank in range(num_files):
        _trace(rank, num_rows).save(folder / f"rank{rank}.npz")


def _trace(seed: int, num_rows: int) -> memlake.Trace:
    """Requests of 3 to 33 MiB on two streams, of which no more than 900 MiB are live at once."""
    choose = random.Random(seed)
    rows: list[tuple[Op, int, int, int]] = []
    live: list[tuple[int, int]] = []
    number = sum_live = 0
    while len(rows) < num_rows:
        if live and (sum_live > 900 * MIB or choose.random() < 0.45):
            freed, nbytes = live.pop(choose.randrange(len(live)))
            sum_live -= nbytes
            rows.append((Op.FREE, freed, 0, 0))
        else:
            nbytes = choose.choice([3, 7, 12, 20, 33]) * MIB
            rows.append((Op.ALLOCATE, number, nbytes, choose.randrange(2)))
            live.append((number, nbytes))
            sum_live += nbytes
            number += 1
    return memlake.Trace(*zip(*rows, strict=True))
