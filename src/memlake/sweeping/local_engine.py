"""The engine that uses the cores of this machine, each in a worker process of its own."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from typing import TYPE_CHECKING

from memlake.analysis.workers import num_threads
from memlake.jobs.processes import WorkerEndedError, Workers, num_files_at_once
from memlake.sweeping.task import Answer, Task, answer_text, changed

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

__all__ = ["LocalEngine"]

_MOST_ATTEMPTS = 3
"""How often a task is begun again after the worker that did it has ended."""


class LocalEngine:
    """Does tasks in worker processes, no more at once than there are cores and than there is memory for.

    Args:
        paths: the files of the sweep.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        # A file may be replayed by several workers, so the number of files does not limit them.
        many = [*paths] * (-(-num_threads() // len(paths)))
        self._num_workers = num_files_at_once(many)
        self._workers = Workers()
        self._is_ending = False

    def __enter__(self) -> LocalEngine:
        self._workers.share_cores(self._num_workers)
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.close()

    @property
    def num_workers(self) -> int:
        """How many tasks are done at the same time."""
        return self._num_workers

    def run(self, tasks: Sequence[Task]) -> Generator[tuple[Task, Answer], None, None]:
        """Does all tasks and yields each once, with its answer, in the order in which they are done."""
        if not tasks:
            return
        with ThreadPoolExecutor(min(self._num_workers, len(tasks)), "memlake-sweep") as executor:
            futures = {executor.submit(self._answer_of, task): task for task in tasks}
            try:
                for future in as_completed(futures):
                    yield futures.pop(future), future.result()
            except BaseException:  # also if the caller takes no more answers
                self._is_ending = True
                executor.shutdown(wait=False, cancel_futures=True)
                self._workers.kill()
                raise

    def _answer_of(self, task: Task) -> Answer:
        if not sys.executable:  # a Python inside another program cannot start another one
            return Answer.of_text(answer_text(task.to_text()))
        how = ""
        for _ in range(_MOST_ATTEMPTS):
            try:
                answer = Answer.of_text(self._workers.call(partial(answer_text, task.to_text())))
            except WorkerEndedError as error:
                how = error.how
                if self._is_ending:
                    break
            else:
                return Answer(error=str(changed(task.path))) if answer.needs_content else answer
        return Answer(error=given_up(task.path, f"the process that did it {how}, {_MOST_ATTEMPTS} times"))


def given_up(path: str, what: str) -> str:
    """Returns the error for a file that no worker could analyse."""
    return f"{path}: cannot be analysed: {what}; hint: if the machine ran out of memory, sweep smaller files"
