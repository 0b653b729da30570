"""Probes of the moment of the installation. Under PyTorch's own allocators the same programs run without it."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from pathlib import Path

import torch
from inside import mode
from inside.books import check_books, check_inside, stat
from inside.probe import check, probe
from inside.tensors import GIB, MIB, churn, taken


@probe(installed=False)
def late_with_live_tensors():
    before = [taken(64 * MIB), taken(1000)]
    mode.install()
    after = [taken(64 * MIB), taken(1000)]
    check_inside(before + after)
    check_books()
    during = torch.cuda.memory_allocated()
    before.clear()
    torch.cuda.empty_cache()
    return during, torch.cuda.memory_allocated(), len(after)


@probe(installed=False)
def late_and_back():
    before = taken(64 * MIB)
    mode.install()
    during = taken(64 * MIB)
    mode.uninstall()
    after = taken(64 * MIB)
    size = before.numel() + during.numel() + after.numel()
    del during
    return size, after.numel()


@probe(books=False)
def tensors_live_longer_than_the_installation():
    kept = churn(100, 10)
    mode.uninstall()
    other = churn(100, 10, seed=5)
    addresses = sorted((tensor.data_ptr(), tensor.numel()) for tensor in kept + other)
    for (at, size), (following, _) in itertools.pairwise(addresses):
        check(at + size <= following, "two live tensors overlap")
    count = len(kept) + len(other)
    del kept, other
    torch.cuda.empty_cache()
    return count, torch.cuda.memory_allocated()


@probe()
def again_with_another_policy():
    kept = churn(100, 10)
    mode.uninstall()
    mode.install("expandable")
    other = churn(100, 10, seed=5)
    check_inside(kept + other)
    sizes = sorted(tensor.numel() for tensor in kept + other)
    return sizes, stat("allocation.all.current")


@probe()
def again_with_the_same_policy():
    kept = taken(64 * MIB)
    mode.install()
    other = taken(64 * MIB)
    return torch.cuda.memory_allocated(), kept.numel() + other.numel()


@probe(books=False)
def back_while_a_pool_is_used():
    """The program is done with the pool while memlake is not installed."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        first = taken(64 * MIB)
        mode.uninstall()
        second = taken(32 * MIB)
    spans = [(segment["address"], segment["address"] + segment["total_size"]) for segment in pool.snapshot()]
    check(any(begin <= second.data_ptr() < end for begin, end in spans), "the second tensor is not in the pool")
    del first, second, pool
    mode.install()
    outside = taken(64 * MIB)
    return outside.numel(), torch.cuda.memory_allocated()


@probe()
def again_while_a_pool_is_used():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        first = taken(64 * MIB)
        mode.uninstall()
        mode.install()
        second = taken(32 * MIB)
    outside = taken(64 * MIB)
    sizes = sum(segment["total_size"] for segment in pool.snapshot())
    return sizes, [tensor.numel() for tensor in (first, second, outside)], pool.use_count()


@probe()
def many_times():
    kept = []
    for number in range(10):
        mode.uninstall()
        kept.append(taken(5 * MIB))
        mode.install()
        kept.append(taken(5 * MIB))
        if number % 2:
            del kept[0]
    return len(kept), torch.cuda.memory_allocated()


@probe(installed=False)
def late_with_a_graph():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inside = taken(64 * MIB)
    mode.install()
    graph.replay()
    outside = taken(64 * MIB)
    del inside
    graph.reset()
    return outside.numel(), torch.cuda.memory_allocated()


@probe(installed=False)
def late_with_a_history():
    torch.cuda.memory._record_memory_history()
    before = taken(64 * MIB)
    mode.install()
    after = taken(32 * MIB)
    found = torch.cuda.memory._snapshot()["device_traces"][0]
    sizes = [entry["size"] for entry in found if entry["action"] == "alloc"]
    return sizes, before.numel() + after.numel()


@probe(installed=False)
def late_with_an_observer():
    seen = []
    torch.cuda.init()
    torch._C._cuda_attach_out_of_memory_observer(lambda *given: seen.append(given))
    mode.install()
    with contextlib.suppress(torch.OutOfMemoryError):
        taken(200 * GIB)
    return seen


@probe(installed=False)
def late_with_an_observer_of_a_pool():
    """A request of a private pool fails: the observer is told the size of the device and what is free."""
    seen = []
    torch.cuda.init()
    torch._C._cuda_attach_out_of_memory_observer(lambda *given: seen.append(given))
    mode.install()
    torch._C._cuda_attach_out_of_memory_observer(lambda *given: seen.append(given))
    outside = taken(50 * GIB)
    pool = torch.cuda.MemPool()
    graph = torch.cuda.CUDAGraph()
    with contextlib.suppress(torch.OutOfMemoryError), torch.cuda.use_mem_pool(pool):
        taken(40 * GIB)
    with contextlib.suppress(torch.OutOfMemoryError), torch.cuda.graph(graph):
        taken(40 * GIB)
    with contextlib.suppress(torch.OutOfMemoryError):
        taken(40 * GIB)
    return seen, outside.numel(), stat("num_ooms")


@probe(installed=False)
def late_with_an_observer_and_a_fraction():
    """The observer is told how much PyTorch may use, also if memlake holds memory."""
    seen = []
    torch.cuda.set_per_process_memory_fraction(0.5)
    torch._C._cuda_attach_out_of_memory_observer(lambda *given: seen.append(given))
    mode.install()
    torch._C._cuda_attach_out_of_memory_observer(lambda *given: seen.append(given))
    outside = taken(30 * GIB)
    pool = torch.cuda.MemPool()
    with contextlib.suppress(torch.OutOfMemoryError), torch.cuda.use_mem_pool(pool):
        taken(20 * GIB)
    with contextlib.suppress(torch.OutOfMemoryError):
        taken(20 * GIB)
    torch.cuda.set_per_process_memory_fraction(0.75)
    with contextlib.suppress(torch.OutOfMemoryError):
        taken(40 * GIB)
    return seen, outside.numel(), torch.cuda.get_per_process_memory_fraction(), taken(25 * GIB).numel()


@probe(installed=False)
def late_with_an_observer_and_a_limit():
    """A limit of memlake's is told as PyTorch's fraction is."""
    seen = []
    torch.cuda.init()
    torch._C._cuda_attach_out_of_memory_observer(lambda *given: seen.append(given))
    mode.install()
    torch._C._cuda_attach_out_of_memory_observer(lambda *given: seen.append(given))
    small = taken(1)
    mode.limit("50%")
    outside = taken(30 * GIB)
    pool = torch.cuda.MemPool()
    with contextlib.suppress(torch.OutOfMemoryError), torch.cuda.use_mem_pool(pool):
        taken(20 * GIB)
    with contextlib.suppress(torch.OutOfMemoryError):
        taken(20 * GIB)
    return seen, outside.numel() + small.numel(), taken(5 * GIB).numel()


@probe(installed=False)
def late_with_a_fraction():
    torch.cuda.set_per_process_memory_fraction(0.5)
    mode.install()
    found = torch.cuda.get_per_process_memory_fraction()
    try:
        taken(60 * GIB)
        error = "no error"
    except torch.OutOfMemoryError:
        error = "OutOfMemoryError"
    return found, error


@probe(installed=False)
def late_when_the_cache_has_everything():
    """Native's cache holds the device; memlake must get it."""
    kept = [taken(35 * GIB), taken(35 * GIB)]
    del kept
    mode.install()
    large = taken(70 * GIB)
    return large.numel(), stat("num_ooms")


@probe(books=False)
def back_when_the_cache_has_everything():
    """memlake's cache holds the device; PyTorch's own allocator must get it."""
    kept = [taken(35 * GIB), taken(35 * GIB)]
    del kept
    mode.uninstall()
    large = taken(70 * GIB)
    return large.numel(), stat("num_ooms")


@probe(books=False)
def memory_that_is_freed_after_the_installation():
    """Nobody asks memlake for memory any more, so PyTorch's own allocator must get it."""
    kept = [taken(35 * GIB), taken(35 * GIB)]
    mode.uninstall()
    del kept
    large = taken(70 * GIB)
    return large.numel(), stat("num_ooms")


@probe()
def memory_of_an_earlier_policy():
    """Memory that was taken under one policy and is freed under another one is not lost."""
    kept = [taken(35 * GIB), taken(35 * GIB)]
    mode.uninstall()
    mode.install("expandable")
    del kept
    large = taken(70 * GIB)
    return large.numel(), stat("num_ooms"), torch.cuda.memory_allocated()


@probe()
def another_allocator_after_the_first_tensor():
    """PyTorch refuses to change an allocator that is in use."""
    kept = taken(MIB)
    library = Path(os.environ["PEERLAB"], "build", "libplug.so")
    other = torch.cuda.memory.CUDAPluggableAllocator(str(library), "plug_malloc", "plug_free")
    try:
        torch.cuda.memory.change_current_allocator(other)
        found = "no error"
    except Exception as error:
        found = type(error).__name__
    return found, kept.numel(), taken(MIB).numel()


@probe(fresh=True, installed=False)
def with_a_prebuilt_shim_and_no_compiler():
    """The package of a machine without a compiler has the shim inside."""
    if mode.uses_memlake():
        import memlake.torch
        from memlake.torch import shim_file
        from memlake.torch.torch_build import installed_build

        build = installed_build()
        compiled = shim_file.find_shim(build)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(compiled, Path(folder, shim_file.prebuilt_name(build)))
            shim_file._PREBUILT = Path(folder)
            os.environ.update(PATH=folder, MEMLAKE_CACHE=f"{folder}/empty")
            memlake.torch.install(mode.policy())
            loaded = Path("/proc/self/maps").read_text()
        check(memlake.torch.installation().door == "shim", "the prebuilt shim was not used")
        check(f"{folder}/libmemlake_torch" in loaded, "another file was loaded")
    return taken(MIB).numel(), torch.cuda.memory_allocated()


@probe(fresh=True, installed=False)
def before_cuda_and_before_the_first_tensor():
    mode.install()
    mode.uninstall()
    mode.install()
    check(not torch.cuda.is_initialized(), "the installation has started CUDA")
    return taken(MIB).numel(), torch.cuda.memory_allocated()


@probe(books=False)
def a_graph_lives_longer_than_the_installation():
    """Its memory stays while it can be launched, and is released after it, although memlake does not hear of that."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inside = taken(1 * GIB)
    mode.uninstall()
    outside = [taken(1 * GIB) for _ in range(4)]
    check(all(abs(t.data_ptr() - inside.data_ptr()) >= GIB for t in outside), "memory of a graph was given to others")
    graph.replay()
    graph.reset()
    del inside, outside, graph
    torch.cuda.empty_cache()
    mode.install()
    taken(MIB)
    torch.cuda.empty_cache()
    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


@probe(installed=False)
def late_with_a_pool():
    """A pool from before the installation keeps its memory, and gets more of the same kind."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        before = taken(64 * MIB)
    mode.install()
    with torch.cuda.use_mem_pool(pool):
        after = taken(64 * MIB)
    check_inside([before, after])
    sizes = sorted(segment["total_size"] for segment in pool.snapshot())
    count = pool.use_count()
    del before, after, pool
    torch.cuda.empty_cache()
    return sizes, count, torch.cuda.memory_reserved()


@probe()
def a_pool_and_then_another_policy():
    """A pool goes on in the memory in which it began."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        first = taken(64 * MIB)
    mode.uninstall()
    mode.install("caching")
    with torch.cuda.use_mem_pool(pool):
        second = taken(64 * MIB)
    check_inside([first, second])
    held = sum(segment["total_size"] for segment in pool.snapshot())
    del first, second, pool
    torch.cuda.empty_cache()
    return held, torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
