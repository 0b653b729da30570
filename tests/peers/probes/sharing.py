"""Probes of memory that goes to another process.

The driver of a lab may lack what they need. PyTorch's own allocators are then refused, and memlake must be refused in
the same way.
"""

from __future__ import annotations

import contextlib
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import torch
from inside import mode
from inside.probe import check, probe
from inside.tensors import MIB, taken

if TYPE_CHECKING:
    from collections.abc import Callable

WITH_BYTES = {"FAKE_CUDA_BACKING": "host"}
COUNT = 5_000_000


def attempt(act: Callable[[], Any]) -> Any:
    """The result, or the error and its text."""
    try:
        return act()
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error).splitlines()[0]}


@probe()
def of_a_storage():
    tensor = taken(64 * MIB)

    def share() -> Any:
        handle = tensor.untyped_storage()._share_cuda_()
        return [type(part).__name__ for part in handle]

    return attempt(share)


@probe()
def by_a_queue():
    from torch.multiprocessing import reductions

    tensor = taken(64 * MIB)
    return attempt(lambda: reductions.reduce_tensor(tensor)[0].__name__)


@probe()
def twice():
    tensor = taken(64 * MIB)
    first = attempt(tensor.untyped_storage()._share_cuda_)
    second = attempt(tensor.untyped_storage()._share_cuda_)
    return type(first).__name__, type(second).__name__


@probe()
def goes_on_after_sending():
    tensor = taken(64 * MIB)
    attempt(tensor.untyped_storage()._share_cuda_)
    size = tensor.numel()
    del tensor
    torch.cuda.ipc_collect()
    torch.cuda.empty_cache()
    if mode.uses_memlake() and mode.has_snapshots():
        require_other_ways()
    return size


def require_other_ways() -> None:
    """Under a policy that cannot send, the error names ways that can."""
    mode.uninstall()
    mode.install("caching")
    for pool in (None, torch.cuda.MemPool()):
        with torch.cuda.use_mem_pool(pool) if pool is not None else contextlib.nullcontext():
            tensor = taken(64 * MIB)
        text = attempt(tensor.untyped_storage()._share_cuda_)["text"]
        check("MemPool(no_split=True)" in text and "memlake.sharing" in text, f"other words: {text}")
    apart = torch.cuda.MemPool(no_split=True)
    with torch.cuda.use_mem_pool(apart):
        tensor = taken(64 * MIB)
    found = attempt(tensor.untyped_storage()._share_cuda_)
    check("memlake" not in str(found), f"PyTorch's own memory is refused by memlake: {found}")


def sent_to_a_process(tensor: torch.Tensor, *, uses_memlake: bool = True) -> Any:
    """Sends a tensor of the numbers from 0 on; returns what the other process says about it."""
    try:
        text = bytes(ForkingPickler.dumps(tensor))
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error).splitlines()[0]}
    context = torch.multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=receive, args=(text, sending, uses_memlake))
    child.start()
    sending.close()
    try:
        found = receiving.recv()
    except EOFError:
        found = "no answer"
    child.join()
    return found, child.exitcode


def receive(text: bytes, sending: Any, uses_memlake: bool) -> None:
    """The other process."""
    try:
        if uses_memlake:
            mode.install()
        tensor = pickle.loads(text)
        found: Any = [list(tensor.shape), str(tensor.dtype), tensor.device.index, torch.cuda.memory_allocated()]
        if mode.MODE != "native":  # a lab may open native's handles without their bytes
            numbers = tensor.cpu()
            check(torch.equal(numbers, torch.arange(COUNT)[-len(numbers) :]), "the bytes are not those that were sent")
        del tensor
    except Exception as error:
        found = {"error": type(error).__name__, "text": str(error).splitlines()[0][:120]}
    sending.send(found)


@probe(fresh=True, environment=WITH_BYTES)
def to_another_process():
    before = taken(3 * MIB)
    tensor = torch.arange(COUNT).cuda()
    found = sent_to_a_process(tensor)
    del tensor
    torch.cuda.ipc_collect()
    return found, before.numel(), torch.cuda.memory_allocated()


@probe(fresh=True, environment=WITH_BYTES)
def a_view_to_another_process():
    tensor = torch.arange(COUNT).cuda()
    return sent_to_a_process(tensor[COUNT - 1000 :]), tensor.numel()


@probe(fresh=True, environment=WITH_BYTES)
def a_small_tensor_to_another_process():
    kept = [taken(1000) for _ in range(10)]
    tensor = torch.arange(COUNT)[-500:].cuda()
    return sent_to_a_process(tensor), len(kept)


@probe(fresh=True, environment=WITH_BYTES)
def to_a_process_without_memlake():
    tensor = torch.arange(COUNT).cuda()
    found = sent_to_a_process(tensor, uses_memlake=False)
    if mode.uses_memlake() and isinstance(found, tuple):
        check("memlake.torch.install()" in str(found), f"the receiver is not told what to do: {found}")
    return found, tensor.numel()


@probe(fresh=True, installed=False, environment=WITH_BYTES)
def memory_from_before_the_installation():
    tensor = torch.arange(COUNT).cuda()
    mode.install()
    return sent_to_a_process(tensor), tensor.numel()


@probe(fresh=True, environment=WITH_BYTES)
def memory_of_a_pool_to_another_process():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        before = taken(3 * MIB)
        tensor = torch.arange(COUNT).cuda()
    found = sent_to_a_process(tensor)
    del tensor
    torch.cuda.ipc_collect()
    return found, before.numel(), torch.cuda.memory_allocated()
