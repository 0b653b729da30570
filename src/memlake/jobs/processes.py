"""Worker processes: each analyses one file at a time, so that a file that needs too much memory ends only its worker.

A worker is a fresh Python that runs `serve`. It does not import the main module of the program, unlike those of
`multiprocessing`, so a program needs no guard around its main part, and a notebook works. Functions to call go to its
stdin and what they return comes from its stdout, as pickles.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from memlake.analysis.workers import limit_threads, num_threads, run_all
from memlake.errors import MemlakeError
from memlake.jobs.asking import Question, RankAnswer, answer_of
from memlake.trace import TraceFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["WorkerEndedError", "Workers", "num_files_at_once", "num_workers", "serve"]

T = TypeVar("T")

_PROGRAM = (
    "import pickle, sys; sys.path[:], threads = pickle.load(sys.stdin.buffer); "
    "from memlake.jobs.processes import serve; serve(threads)"
)
# A worker needs so many times the size of its file, and so much for itself. Measured: 2.0 times for 850,000 events with
# stacks (171 MB), 6.7 times for 1,200,000 events without (45 MB); 31 MiB with an empty trace.
_MEMORY_PER_BYTE = 8
_MEMORY_OF_WORKER = 64 * 2**20


def serve(threads: int) -> NoReturn:
    """Calls the functions that come from stdin, and ends the process when there are no more.

    This is the main function of a worker.

    Args:
        threads: the most threads to use.
    """
    limit_threads(threads)
    # What a library prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked by the process that started this one
        while True:
            try:
                job = pickle.load(sys.stdin.buffer)
            except EOFError:
                break
            answer: Any
            try:
                answer = job()
            except Exception as error:
                answer = error
            pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(128 + signal.SIGINT)
    os._exit(0)  # there is nothing to clean up, and it is faster


class WorkerEndedError(Exception):
    """A worker ended before it answered.

    Attributes:
        how: how it ended, as a part of a sentence.
    """

    def __init__(self, code: int) -> None:
        self.how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
        super().__init__(self.how)


class Workers:
    """Worker processes that are started when a call waits and none is idle, and ended by `close`. A context manager."""

    def __init__(self) -> None:
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._all: list[subprocess.Popen[bytes]] = []
        self._threads = 1

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask_all(
        self, paths: Sequence[str], question: Question, progress: Callable[[int, int], None] | None = None
    ) -> list[RankAnswer | MemlakeError]:
        """Asks every file the same question and returns the answers in the order of the files.

        The answer of a file that cannot be read is its error. No more files are analysed at once than there are cores,
        and than there is memory for.
        """
        most = num_files_at_once(paths)
        if len(paths) == 1 or not sys.executable:
            return run_all([partial(_ask_here, path, question) for path in paths], progress, most=1)
        self.share_cores(most)
        return run_all([partial(self._ask, path, question) for path in paths], progress, most=most)

    def share_cores(self, most: int) -> None:
        """Says how many workers run at the same time; each that is started from now on has its share of the cores."""
        self._threads = max(num_threads() // most, 1)

    def call(self, job: Callable[[], T]) -> T:
        """Calls a function in a worker and returns what it returns. Several threads may call at the same time.

        Args:
            job: a function that can be pickled, for instance a `functools.partial`. The worker must be able to import
                what it names.

        Raises:
            WorkerEndedError: if the worker ends before it answers.
            Exception: what the function raises.
        """
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = self._start()
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            pickle.dump(job, worker.stdin, pickle.HIGHEST_PROTOCOL)
            worker.stdin.flush()
            answer = pickle.load(worker.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            worker.kill()
            raise WorkerEndedError(worker.wait()) from None
        self._idle.put(worker)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    def _ask(self, path: str, question: Question) -> RankAnswer | MemlakeError:
        """Asks a worker. Errors of the file are returned, all others are raised."""
        try:
            return self.call(partial(answer_of, path, question))
        except MemlakeError as error:
            return error
        except WorkerEndedError as error:
            return _death(path, error)

    def kill(self) -> None:
        """Ends all workers at once, also those that are at work."""
        for worker in self._all:
            worker.kill()

    def close(self) -> None:
        """Ends all workers."""
        for worker in self._all:
            if worker.stdin is not None and not worker.stdin.closed:
                with suppress(BrokenPipeError):  # it has ended by itself
                    worker.stdin.close()
        for worker in self._all:
            worker.wait()
            if worker.stdout is not None:
                worker.stdout.close()

    def _start(self) -> subprocess.Popen[bytes]:
        # -I: neither the folder nor the environment may put other modules before those of this process.
        command = [sys.executable, "-I", "-c", _PROGRAM]
        # A worker starts with SIGINT blocked, so that Ctrl-C during its imports prints nothing. `serve` unblocks it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._all.append(worker)
        assert worker.stdin is not None
        pickle.dump((sys.path, self._threads), worker.stdin)
        worker.stdin.flush()
        return worker


def _ask_here(path: str, question: Question) -> RankAnswer | MemlakeError:
    try:
        return answer_of(path, question)
    except MemlakeError as error:
        return error


def _death(path: str, error: WorkerEndedError) -> TraceFileError:
    return TraceFileError(
        f"cannot be analysed: the process that did it {error.how}",
        path,
        hint="if the machine ran out of memory, analyse fewer or smaller files at once",
    )


def num_files_at_once(paths: Sequence[str]) -> int:
    """Returns how many of these files are analysed at once on this machine, now."""
    return num_workers([_size_of(path) for path in paths], num_threads(), _available_memory())


def num_workers(sizes: Sequence[int], num_cores: int, available: int) -> int:
    """Returns how many files are analysed at once.

    Args:
        sizes: the sizes of the files.
        num_cores: the number of cores.
        available: the memory that is available, in bytes. Half of it is used.
    """
    fitting = available // 2 // (_MEMORY_OF_WORKER + _MEMORY_PER_BYTE * max(sizes))
    return max(min(len(sizes), num_cores, fitting), 1)


def _size_of(path: str) -> int:
    try:
        packed = 10 if path.lower().endswith(".gz") else 1  # gzip packs snapshots 5 to 10 times
        return Path(path).stat().st_size * packed
    except OSError:
        return 0  # the reader says what is wrong with it


def _available_memory() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
