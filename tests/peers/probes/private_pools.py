"""Probes of `torch.cuda.MemPool`."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import torch
from inside.books import check_inside, stat
from inside.probe import check, probe
from inside.tensors import GIB, MIB, taken


def custom_allocator():
    """The lab's example of an allocator of one's own."""
    library = Path(os.environ["PEERLAB"], "build", "libplug.so")
    return torch.cuda.memory.CUDAPluggableAllocator(str(library), "plug_malloc", "plug_free")


@probe()
def of_pytorch():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = taken(64 * MIB)
    outside = taken(64 * MIB)
    check_inside([kept, outside])
    sizes = [segment["total_size"] for segment in pool.snapshot()]
    return sizes, pool.use_count(), torch.cuda.memory_allocated()


@probe()
def of_a_custom_allocator():
    allocator = custom_allocator()
    pool = torch.cuda.MemPool(allocator.allocator())
    with torch.cuda.use_mem_pool(pool):
        kept = taken(64 * MIB)
    sizes = [segment["total_size"] for segment in pool.snapshot()]
    check_inside([kept])
    return sizes, torch.cuda.memory_allocated()


@probe()
def dies():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = taken(64 * MIB)
    del kept, pool
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved(), torch.cuda.memory_allocated()


@probe()
def dies_before_its_tensors():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = taken(64 * MIB)
    del pool
    torch.cuda.empty_cache()
    during = torch.cuda.memory_allocated()
    del kept
    torch.cuda.empty_cache()
    return during, torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


@probe()
def dies_before_scattered_tensors():
    """Every fifth tensor of a dead pool lives on; what lies between them is cached memory."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = [taken(4 * MIB) for _ in range(20)][::5]
    del pool
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved(), sum(tensor.numel() for tensor in kept)


@probe()
def nested():
    outer, inner = torch.cuda.MemPool(), torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(outer):
        first = taken(30 * MIB)
        with torch.cuda.use_mem_pool(inner):
            second = taken(40 * MIB)
        third = taken(50 * MIB)
    fourth = taken(60 * MIB)
    sizes = [sorted(segment["total_size"] for segment in pool.snapshot()) for pool in (outer, inner)]
    return sizes, sum(tensor.numel() for tensor in (first, second, third, fourth)), torch.cuda.memory_allocated()


@probe()
def only_the_thread_that_uses_it():
    """Another thread's tensors stay outside of the pool."""
    pool = torch.cuda.MemPool()
    kept: list[torch.Tensor] = []
    with torch.cuda.use_mem_pool(pool):
        kept.append(taken(64 * MIB))
        thread = threading.Thread(target=lambda: kept.append(taken(128 * MIB)))
        thread.start()
        thread.join()
    return [segment["total_size"] for segment in pool.snapshot()], len(kept)


@probe()
def without_splits():
    pool = torch.cuda.MemPool(no_split=True)
    with torch.cuda.use_mem_pool(pool):
        kept = [taken(5 * MIB) for _ in range(3)]
    return len(pool.snapshot()), len(kept)


@probe()
def used_when_the_device_is_full():
    pool = torch.cuda.MemPool(use_on_oom=True)
    with torch.cuda.use_mem_pool(pool):
        inside = taken(50 * GIB)
    del inside
    outside = taken(40 * GIB)
    return outside.numel(), stat("num_ooms")


@probe()
def not_used_when_the_device_is_full():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = taken(50 * GIB)
    del inside
    try:
        outside = taken(40 * GIB)
    except torch.OutOfMemoryError:
        outside = None
    return outside is None


@probe()
def a_pool_after_the_cache_has_everything():
    kept = [taken(30 * GIB) for _ in range(2)]
    del kept
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = taken(40 * GIB)
    check(torch.cuda.memory_reserved() <= 80 * GIB, "more is reserved than the device has")
    return inside.numel(), stat("num_ooms"), torch.cuda.memory_allocated()


@probe()
def a_tensor_after_a_dead_pool_had_everything():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = [taken(30 * GIB) for _ in range(2)]
    del inside, pool
    outside = taken(70 * GIB)
    return outside.numel(), stat("num_ooms")


@probe()
def a_pool_that_is_too_large():
    pool = torch.cuda.MemPool()
    outside = taken(50 * GIB)
    try:
        with torch.cuda.use_mem_pool(pool):
            taken(40 * GIB)
        found = "no error"
    except torch.OutOfMemoryError as error:
        check(str(error).startswith("CUDA out of memory. Tried to allocate"), f"other words: {error}")
        found = "OutOfMemoryError"
    return found, stat("num_ooms"), outside.numel(), taken(5 * MIB).numel()


@probe()
def observer_of_a_pool():
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *given: seen.append(given))
    pool = torch.cuda.MemPool()
    outside = taken(50 * GIB)
    try:
        with torch.cuda.use_mem_pool(pool):
            taken(40 * GIB)
    except torch.OutOfMemoryError:
        pass
    return [(device, asked, total) for device, asked, total, _ in seen], outside.numel()


@probe()
def a_pool_while_another_thread_is_told_of_its_failure():
    """An observer runs for a while, and the rest of the program goes on meanwhile. No thread shares in the failure."""
    is_told, goes_on = threading.Event(), threading.Event()

    def observe(*_given):
        is_told.set()
        goes_on.wait(60)

    torch._C._cuda_attach_out_of_memory_observer(observe)
    outside = taken(50 * GIB)
    failing = threading.Thread(target=fail_in_a_pool)
    failing.start()
    check(is_told.wait(60), "the observer was not called")
    apart = torch.cuda.MemPool(no_split=True)
    with torch.cuda.use_mem_pool(apart):
        kept = taken(5 * MIB)
    goes_on.set()
    failing.join()
    return kept.numel(), stat("num_ooms"), outside.numel()


@probe()
def a_pool_after_two_threads_failed_at_once():
    """Two threads fail at the same time, and the first to fail is the first to end."""
    both_failed, first_ended = threading.Barrier(2), threading.Event()
    turns = []

    def observe(*_given):
        turns.append(threading.current_thread())
        both_failed.wait(60)
        if turns[0] is not threading.current_thread():
            first_ended.wait(60)

    def run():
        fail_in_a_pool()
        first_ended.set()

    torch._C._cuda_attach_out_of_memory_observer(observe)
    outside = taken(50 * GIB)
    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool = torch.cuda.MemPool(no_split=True)
    with torch.cuda.use_mem_pool(pool):
        kept = taken(5 * MIB)
    return kept.numel(), stat("num_ooms"), torch.cuda.get_per_process_memory_fraction(), outside.numel()


def fail_in_a_pool():
    """Asks for more than the device has left."""
    pool = torch.cuda.MemPool()
    try:
        with torch.cuda.use_mem_pool(pool):
            taken(40 * GIB)
    except torch.OutOfMemoryError:
        pass


@probe()
def free_inside_of_outer_memory():
    """A tensor from outside, freed inside, goes back to where it came from, and the other way round."""
    pool = torch.cuda.MemPool()
    outside = taken(64 * MIB)
    with torch.cuda.use_mem_pool(pool):
        del outside
        inside = taken(64 * MIB)
    del inside
    again = taken(64 * MIB)
    active = [segment["active_size"] for segment in pool.snapshot()]
    return active, torch.cuda.memory_allocated(), again.numel()


@probe()
def with_a_graph():
    pool = torch.cuda.MemPool()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool.id):
        kept = taken(64 * MIB)
    return [segment["total_size"] for segment in pool.snapshot()], kept.numel()


@probe()
def record_stream_inside():
    side = torch.cuda.Stream()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = taken(64 * MIB)
        kept.record_stream(side)
        del kept
        again = taken(64 * MIB)
    return again.numel(), torch.cuda.memory_allocated()


@probe()
def larger_requests_in_a_live_pool():
    """What is freed in a live pool lies between live tensors, and a larger tensor of the same pool needs it."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = [taken(10 * GIB) for _ in range(7)]
        del kept[4], kept[2], kept[0]
        try:
            kept.append(taken(35 * GIB))
        except torch.OutOfMemoryError:
            return "OutOfMemoryError"
    check(torch.cuda.memory_reserved() <= 80 * GIB, "more is reserved than the device has")
    check_inside(kept)
    return "served"


@probe()
def emptied_while_it_lives():
    """The cache is emptied while a live pool has free memory."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept, freed = taken(64 * MIB), taken(64 * MIB)
    del freed
    torch.cuda.empty_cache()
    held = torch.cuda.memory_reserved()
    with torch.cuda.use_mem_pool(pool):
        again = taken(64 * MIB)
    return held, torch.cuda.memory_reserved(), kept.numel() + again.numel()


@probe()
def emptied_after_a_capture():
    """A graph has captured memory of the pool, so nobody gets it, whatever happens."""
    pool = torch.cuda.MemPool()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool.id):
        inside = taken(64 * MIB)
    at = inside.data_ptr()
    del inside
    torch.cuda.empty_cache()
    held = torch.cuda.memory_reserved()
    others = [taken(64 * MIB) for _ in range(20)]
    check(all(abs(other.data_ptr() - at) >= 64 * MIB for other in others), "memory of a graph was given to others")
    graph.replay()
    return held, len(others)


@probe()
def figures_of_each():
    """`reserved_bytes_by_private_pools` through the life of a pool."""
    found = []

    def look() -> None:
        figures = torch.cuda.memory_stats()
        found.append({name: figures[name] for name in sorted(figures) if ".0_" in name})

    look()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = [taken(64 * MIB), taken(1000)]
    look()
    torch.cuda.reset_peak_memory_stats()
    look()
    with torch.cuda.use_mem_pool(pool):
        kept.append(taken(100 * MIB))
    look()
    del kept, pool
    look()
    torch.cuda.reset_accumulated_memory_stats()
    look()
    torch.cuda.reset_peak_memory_stats()
    look()
    return found


@probe()
def use_counts():
    pool = torch.cuda.MemPool()
    counts = [pool.use_count()]
    with torch.cuda.use_mem_pool(pool):
        counts.append(pool.use_count())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool.id):
        kept = taken(MIB)
    counts.append(pool.use_count())
    graph.reset()
    counts.append(pool.use_count())
    return counts, kept.numel()


@probe()
def a_tensor_after_the_pool_has_gone_on_another_stream():
    """A tensor of a dead pool lives on, was used on another stream, and goes at last."""
    side = torch.cuda.Stream()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = taken(64 * MIB)
    kept.record_stream(side)
    del pool
    torch.cuda.empty_cache()
    during = torch.cuda.memory_reserved()
    del kept
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return during, torch.cuda.memory_reserved()


@probe()
def many_threads():
    """Each thread has a pool of its own, and allocates outside, too."""
    wrong: list[str] = []

    def work() -> None:
        for _ in range(20):
            pool = torch.cuda.MemPool()
            with torch.cuda.use_mem_pool(pool):
                inside = [taken(3 * MIB) for _ in range(4)]
            outside = taken(3 * MIB)
            spans = [(s["address"], s["address"] + s["total_size"]) for s in pool.snapshot()]
            for tensor in inside:
                if not any(begin <= tensor.data_ptr() < end for begin, end in spans):
                    wrong.append("a tensor of the pool is outside")
            if any(begin <= outside.data_ptr() < end for begin, end in spans):
                wrong.append("a tensor from outside is in the pool")
            del inside, outside, pool

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.empty_cache()
    return wrong, torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
