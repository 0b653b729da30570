"""Runs independent replays on all cores. They are native code without the GIL, so threads suffice."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["run_all"]

T = TypeVar("T")


def run_all(jobs: Sequence[Callable[[], T]], progress: Callable[[int, int], None] | None = None) -> list[T]:
    """The results of all jobs, in their order. The first error of a job is raised, and jobs not begun are dropped.

    Args:
        jobs: what to run.
        progress: called with how many are done and how many there are, in the caller's thread, after each.
    """
    with ThreadPoolExecutor(min(len(jobs), len(os.sched_getaffinity(0))), "memlake-replay") as executor:
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
