"""What probes of private pools share: what the pools hold, threads, and what is left at the end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch
from inside.books import segments_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def private_bytes(device: int = 0) -> int:
    """What private pools hold on a device."""
    return sum(s["total_size"] for s in segments_of(device) if tuple(s["segment_pool_id"]) != (0, 0))


def run_all(works: Iterable[Callable[[], None]]) -> list[str]:
    """Runs the functions, each in a thread; returns the errors."""
    wrong: list[str] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {str(error).splitlines()[0]}")

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def given_back() -> list[list[int]]:
    """Allocated and reserved bytes of each device after everything was emptied."""
    for device in range(torch.cuda.device_count()):
        torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    return [
        [torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)]
        for device in range(torch.cuda.device_count())
    ]
