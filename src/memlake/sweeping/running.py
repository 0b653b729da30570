"""Runs a sweep: finds the files, leaves out what is known, gives the rest to an engine, and joins the results."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from memlake.errors import TraceError
from memlake.jobs.answer import Unreadable
from memlake.jobs.rank_files import ranks
from memlake.replaying.event_mode import EventMode
from memlake.sweeping.basis import basis_of_results
from memlake.sweeping.collection import Collection
from memlake.sweeping.digests import digests_of
from memlake.sweeping.engines import engine_of
from memlake.sweeping.result import Sweep, SweepFile
from memlake.sweeping.results_file import ResultsFile
from memlake.sweeping.settings import chosen_settings
from memlake.sweeping.task import Task
from memlake.sweeping.work import Work

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from memlake.policies import Options
    from memlake.units import Size

__all__ = ["sweep"]


def sweep(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    capacities: Iterable[Size] | Size,
    policies: Iterable[str | Options] | str | Options | None = None,
    *,
    events: str = "immediate",
    limit: Size | None = None,
    reserve: Size | None = None,
    device: int | None = None,
    engine: str = "local",
    address: str | None = None,
    results: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Replays many files under many settings: every policy on every device. Says which setting serves all files.

    The same files and settings give the same result on every engine.

    Args:
        files: a folder, a pattern such as ``"run/rank*.pickle"``, or several files, folders and patterns.
        capacities: the devices: sizes, or names of GPUs such as ``"a100-80gb"``.
        policies: names, PyTorch's configuration strings, or options. None: every policy that is not approximate, with
            its defaults.
        events: when memory that another stream used becomes free; see `memlake.replay`.
        limit: the most that each policy may hold, as a size or a share of the device.
        reserve: what to subtract from the memory of a named GPU for the CUDA context. None: 512 MiB.
        device: the device of each snapshot. None: the one with the most events.
        engine: ``"local"``: the cores of this machine. ``"dask"`` and ``"ray"``: a cluster.
        address: where the cluster is, for instance ``"tcp://host:8786"`` (Dask) or ``"host:6379"`` (Ray). Ray finds a
            cluster on this machine by itself. Workers that do not have the files get their content.
        results: a file to which results are appended as they come. Results that are there already are not computed
            again, so the same call goes on where an earlier one was ended. None: no file.
        progress: called with the number of results that are there, and of all results.

    Raises:
        ConfigError: if an argument cannot be used, or the client of the cluster is not installed.
        TraceError: if there is no such file, a folder cannot be read, or none of the files can be read.
        SweepError: if the cluster or the results file cannot be used. Results so far are in the results file.
    """
    found = ranks(files, device=device)
    settings = chosen_settings(policies, capacities, limit, reserve)
    mode = str(EventMode.parse(events))
    basis = basis_of_results()
    paths = [file.path for file in found.files]
    chosen = engine_of(engine, address, paths)
    with ExitStack() as stack:
        file = None if results is None else stack.enter_context(ResultsFile(results))
        digests = digests_of(paths)
        unreadable = {path: str(digest) for path, digest in digests.items() if not isinstance(digest, str)}
        known = {path: digest for path, digest in digests.items() if isinstance(digest, str)}
        work = Work(found, known, settings, basis, device, mode)
        collection = Collection(work, unreadable, file, progress)
        if tasks := collection.begin():
            running = stack.enter_context(chosen)
            # Closed at the first error, so that no worker begins another task.
            answers = stack.enter_context(closing(running.run(_split(tasks, running.num_workers))))
            for task, answer in answers:
                collection.add(task, answer)
        collection.end()
    return _joined(work, collection)


def _joined(work: Work, collection: Collection) -> Sweep:
    """Returns the results of all files that can be read. Raises TraceError if none of them can."""
    found, unreadable = work.found, collection.unreadable
    good = [file for file in found.files if file.path not in unreadable]
    if not good:
        reasons = [unreadable[file.path] for file in found.files]
        first = "" if len(reasons) == 1 else f"none of the {len(reasons)} files can be read; the first: "
        raise TraceError(first + reasons[0])
    return Sweep(
        files=tuple(
            SweepFile(file, work.digests[file.path], tuple(collection.rows[key] for key in work.keys_of(file.path)))
            for file in good
        ),
        settings=work.settings,
        events=work.events,
        unreadable=tuple(Unreadable(file, unreadable[file.path]) for file in found.files if file.path in unreadable),
        numbered_by=found.numbered_by,
        num_ignored=found.found.num_ignored,
        ignored=tuple(found.found.ignored),
        num_repeated=found.found.num_repeated,
    )


def _split(tasks: list[Task], num_workers: int) -> list[Task]:
    """Splits tasks by their settings if there are fewer than workers. Each part reads the file again."""
    parts = -(-num_workers // len(tasks))
    if parts == 1:
        return tasks
    return [
        Task(task.path, task.digest, task.device, task.events, task.settings[start::parts])
        for task in tasks
        for start in range(min(parts, len(task.settings)))
    ]
