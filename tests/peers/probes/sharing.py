"""Probes of memory that goes to another process."""

from __future__ import annotations

from typing import Any

import torch
from inside import mode
from inside.probe import check, probe
from inside.tensors import MIB, taken


def attempt(act: Any) -> Any:
    """The result, or the error and its text."""
    try:
        return act()
    except Exception as error:
        names_the_way = "memlake.sharing" in str(error) or not mode.uses_memlake()
        check(names_the_way, f"the error does not name memlake.sharing: {error}")
        return {"error": type(error).__name__, "text": str(error).splitlines()[0]}


@probe()
def of_a_storage():
    tensor = taken(64 * MIB)

    def share() -> Any:
        handle = tensor.untyped_storage()._share_cuda_()
        return [[type(part).__name__, len(part) if isinstance(part, bytes) else None] for part in handle]

    return attempt(share)


@probe()
def of_a_part_of_a_segment():
    first = taken(300_000)
    second = taken(300_000)

    def share() -> Any:
        handle = second.untyped_storage()._share_cuda_()
        return {"size": handle[2], "offset": handle[3]}

    return attempt(share), first.numel()


@probe()
def by_a_queue():
    from torch.multiprocessing import reductions

    tensor = taken(64 * MIB)
    return attempt(lambda: reductions.reduce_tensor(tensor)[0].__name__)


@probe()
def goes_on_after_a_refusal():
    tensor = taken(64 * MIB)
    attempt(tensor.untyped_storage()._share_cuda_)
    size = tensor.numel()
    del tensor
    torch.cuda.ipc_collect()
    torch.cuda.empty_cache()
    return size
