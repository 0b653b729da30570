"""The collection of the results of a sweep: the rows that are there, and the files that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memlake.sweeping.results_file import ResultsFile
    from memlake.sweeping.task import Answer, Task
    from memlake.sweeping.work import Work

__all__ = ["Collection"]


class Collection:
    """The results of a sweep so far, in memory and in the results file if there is one.

    Args:
        work: the work of the sweep.
        unreadable: the files that cannot be read, with the reasons.
        file: the results file; None: there is none.
        progress: called with the number of results that are there, and of all results.

    Attributes:
        rows: the rows by their keys. Those of a results file may also be of other sweeps.
        unreadable: the files that cannot be read, with the reasons.
    """

    def __init__(
        self,
        work: Work,
        unreadable: Mapping[str, str],
        file: ResultsFile | None,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.rows: dict[str, dict[str, Any]] = {} if file is None else file.rows
        self.unreadable = dict(unreadable)
        self._work = work
        self._file = file
        self._progress = progress
        self._done = 0

    def begin(self) -> list[Task]:
        """Returns the tasks whose results are missing. The results file now names this sweep as its last one."""
        if self._file is not None:
            # A description that differs only in files that could not be read is of this sweep: it goes on.
            last = self._file.sweep
            if self._work.description((last or {}).get("unreadable", {})) != last:
                self._file.describe(self._work.description(self.unreadable))
        tasks = self._work.tasks_without(self.rows)
        known = len(self._work.keys) - sum(len(task.settings) for task in tasks)
        if known:
            self._count(known)
        return tasks

    def add(self, task: Task, answer: Answer) -> None:
        """Adds the answer to a task: its rows, or the reason why its file cannot be read."""
        if answer.error:
            # Every file with this content is such a file.
            for path in self._work.paths_with(task.digest):
                self.unreadable[path] = answer.error.replace(task.path, path)
        else:
            keys = [self._work.keys[task.digest, setting] for setting in task.settings]
            self._keep(dict(zip(keys, answer.rows, strict=True)))
        self._count(len(task.settings))

    def end(self) -> None:
        """Writes the files that could not be read into the results file."""
        if self._file is not None:
            self._file.describe(self._work.description(self.unreadable))

    def _keep(self, rows: dict[str, dict[str, Any]]) -> None:
        if self._file is None:
            self.rows |= rows
        else:
            self._file.add(rows)  # `rows` of this object is that of the file

    def _count(self, number: int) -> None:
        self._done += number
        if self._progress is not None:
            self._progress(self._done, len(self._work.keys))
