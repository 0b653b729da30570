"""Runs independent replays on all cores. A replay is native code that releases the GIL, so threads suffice."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["limit_threads", "num_threads", "replays_at_once", "run_all", "run_all_with"]

T = TypeVar("T")
Other = TypeVar("Other")


_most_threads: int | None = None

_ADDRESSES = 32 * 2**40
"""The addresses that the emulated devices of a process share."""
_ADDRESSES_OF_A_REPLAY = 8
"""A pool reserves at most so many times the memory of its device."""


def limit_threads(number: int | None) -> None:
    """Sets the most threads that `run_all` uses in this process; None: one per core. For a process among several."""
    global _most_threads
    _most_threads = number


def num_threads() -> int:
    """Returns how many jobs `run_all` runs at the same time."""
    cores = len(os.sched_getaffinity(0))
    return cores if _most_threads is None else min(cores, _most_threads)


def replays_at_once(capacity: int) -> int:
    """Returns how many replays on devices of this size may run at the same time.

    With more of them, one could take the addresses that another one needs, and the results would depend on the threads.
    """
    return max(1, min(num_threads(), _ADDRESSES // (_ADDRESSES_OF_A_REPLAY * max(capacity, 1))))


def run_all(
    jobs: Sequence[Callable[[], T]],
    progress: Callable[[int, int], None] | None = None,
    *,
    most: int | None = None,
) -> list[T]:
    """Runs all jobs and returns their results in order. Raises the first error of a job and cancels the waiting jobs.

    Args:
        jobs: the functions to call.
        progress: called in the caller's thread after each job, with the number of finished jobs and of all jobs.
        most: the most jobs to run at the same time. None: `num_threads`.
    """
    with ThreadPoolExecutor(min(len(jobs), most or num_threads()), "memlake-replay") as executor:
        futures = [executor.submit(job) for job in jobs]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                if progress is not None:
                    progress(done, len(jobs))
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in futures]


def run_all_with(
    other: Callable[[], Other],
    jobs: Sequence[Callable[[], T]],
    progress: Callable[[int, int], None] | None = None,
    *,
    most: int | None = None,
) -> tuple[list[T], Other]:
    """Runs all jobs as `run_all` does, and at the same time a job of another kind. Returns the results of both."""
    with ThreadPoolExecutor(1, "memlake-other") as executor:
        future = executor.submit(other)
        return run_all(jobs, progress, most=most), future.result()
