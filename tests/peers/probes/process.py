"""Probes of threads and forks."""

from __future__ import annotations

import gc
import os
import random
import threading

import torch
from inside.books import stat
from inside.probe import check, probe
from inside.tensors import GIB, MIB, taken


def work(number: int, count: int, failures: list[str]) -> None:
    """Allocates and frees on a stream of its own."""
    try:
        chance = random.Random(number)
        with torch.cuda.stream(torch.cuda.Stream()):
            kept = []
            for turn in range(count):
                kept.append(taken(int(2 ** chance.uniform(8, 24))))
                if turn % 3 == 0:
                    kept[-1].record_stream(torch.cuda.default_stream())
                if len(kept) > 20:
                    del kept[chance.randrange(20)]
    except BaseException as error:
        failures.append(str(error))


@probe()
def threads():
    failures: list[str] = []
    workers = [threading.Thread(target=work, args=(number, 2000, failures)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    torch.cuda.synchronize()
    taken(1)
    check(not failures, f"a thread failed: {failures[:1]}")
    return stat("allocation.all.allocated"), torch.cuda.memory_allocated()


@probe()
def threads_that_ask_for_statistics():
    failures: list[str] = []
    workers = [threading.Thread(target=work, args=(number, 1000, failures)) for number in range(3)]
    torch.cuda.memory._record_memory_history(max_entries=1000)
    for worker in workers:
        worker.start()
    turns = 0
    while any(worker.is_alive() for worker in workers):
        torch.cuda.memory_stats()
        torch.cuda.memory._snapshot()
        torch.cuda.empty_cache()
        turns += 1
    check(not failures, f"a thread failed: {failures[:1]}")
    return turns > 0, torch.cuda.memory_allocated()


@probe(environment={"FAKE_CUDA_BYTES": "2g"})
def threads_on_a_full_device():
    """Threads that run out of memory get errors and go on."""
    refused = []

    def hungry(number: int) -> None:
        chance = random.Random(number)
        kept = []
        for _ in range(300):
            try:
                kept.append(taken(chance.randrange(1, 200 * MIB)))
            except torch.OutOfMemoryError:
                refused.append(number)
                kept.clear()

    workers = [threading.Thread(target=hungry, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    check(stat("num_ooms") == len(refused), f"{stat('num_ooms')} errors are counted, {len(refused)} were raised")
    return len(refused) > 0, torch.cuda.memory_allocated()


@probe()
def free_in_another_thread():
    kept = [taken(30 * MIB) for _ in range(10)]
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    return torch.cuda.memory_allocated()


def in_a_fork(act) -> str:
    """What the function returns in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            found = act()
        except BaseException as error:
            found = f"{type(error).__name__}: {str(error)[:60]}"
        os.write(writer, found.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        found = file.read()
    _, status = os.waitpid(child, 0)
    return f"{found} ({os.waitstatus_to_exitcode(status)})"


@probe()
def fork_allocates():
    kept = taken(30 * MIB)
    found = in_a_fork(lambda: str(taken(30 * MIB).numel()))
    return found, taken(MIB).numel(), kept.numel()


@probe()
def fork_frees():
    kept = [taken(30 * MIB)]

    def free() -> str:
        kept.clear()
        return "freed"

    found = in_a_fork(free)
    return found, torch.cuda.memory_allocated(), kept[0].numel()


def private_pools() -> tuple[list[object], list[int]]:
    """A live graph, a live pool and a dead one, with tensors in each."""
    graph, pool, dead = torch.cuda.CUDAGraph(), torch.cuda.MemPool(), torch.cuda.MemPool()
    with torch.cuda.graph(graph):
        kept: list[object] = [taken(30 * MIB)]
    for used in (pool, dead):
        with torch.cuda.use_mem_pool(used):
            kept.append(taken(30 * MIB))
    return [*kept, graph, pool], [tensor.data_ptr() for tensor in kept]


@probe()
def fork_ends_private_pools():
    """A child drops the graphs, the pools and the tensors of its parent; the parent's go on."""
    kept, _ = private_pools()
    everything = [kept]
    del kept

    def drop() -> str:
        everything.clear()
        gc.collect()
        return "dropped"

    found = in_a_fork(drop)
    everything[0][3].replay()
    during = torch.cuda.memory_allocated()
    with torch.cuda.use_mem_pool(everything[0][4]):
        inside = taken(10 * MIB)
    count = inside.numel()
    del inside
    everything.clear()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return found, during, count, torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


@probe()
def fork_inside_a_pool():
    """A child leaves the block of a pool, and the parent goes on in it."""
    pool = torch.cuda.MemPool()
    used = torch.cuda.use_mem_pool(pool)
    used.__enter__()
    kept = [taken(30 * MIB)]

    def leave() -> str:
        used.__exit__(None, None, None)
        kept.clear()
        return "left"

    found = in_a_fork(leave)
    kept.append(taken(20 * MIB))
    used.__exit__(None, None, None)
    outside = taken(30 * MIB)
    live = sum(segment["allocated_size"] for segment in pool.snapshot())
    return found, live, outside.numel()


@probe(fresh=True)
def loaders_beside_private_pools():
    """Workers are forked from a process with live graphs and pools."""
    from torch.utils.data import DataLoader, TensorDataset

    kept, addresses = private_pools()
    loader = DataLoader(TensorDataset(torch.zeros(64, 8)), batch_size=8, num_workers=2, persistent_workers=True)
    shapes = []
    for _ in range(2):
        for (batch,) in loader:
            shapes.append(list(batch.cuda().shape))
            kept[3].replay()
    del loader
    check([tensor.data_ptr() for tensor in kept[:3]] == addresses, "a tensor has moved")
    return len(shapes), torch.cuda.memory_allocated()


@probe()
def fork_before_cuda_starts():
    """A child of a process that has not used CUDA may use it, and the parent, too."""
    found = in_a_fork(lambda: str(taken(30 * MIB).numel()))
    return found, taken(30 * MIB).numel()


@probe(fresh=True)
def spawned_children():
    import torch.multiprocessing as multiprocessing

    context = multiprocessing.get_context("spawn")
    child = context.Process(target=spawned)
    child.start()
    child.join()
    return child.exitcode, taken(MIB).numel()


def spawned() -> None:
    """The work of a spawned child."""
    taken(30 * MIB)


@probe()
def many_small_tensors():
    kept = [taken(1) for _ in range(20000)]
    count = stat("allocation.all.current")
    del kept[::2]
    torch.cuda.empty_cache()
    return count, stat("allocation.all.current"), torch.cuda.memory_allocated()


@probe()
def cycles_of_objects():
    """Tensors in reference cycles are freed by the collector, at any moment."""
    import gc

    for _ in range(50):
        cycle = [taken(30 * MIB)]
        cycle.append(cycle)
    del cycle
    gc.collect()
    return torch.cuda.memory_allocated()


@probe()
def whole_device_in_one_tensor():
    free, _ = torch.cuda.mem_get_info()
    kept = taken(free)
    left, _ = torch.cuda.mem_get_info()
    return kept.numel() // GIB, left
