"""Probes of captures and private pools under attack: threads, several devices, shared pools, errors, limits."""

from __future__ import annotations

import threading

import torch
from inside import mode
from inside.books import check_inside, stat
from inside.pools import given_back, private_bytes, run_all
from inside.probe import check, probe
from inside.tensors import GIB, MIB, taken
from probes.devices import TWO
from probes.streams import overlap


@probe(environment=TWO)
def threads_on_two_devices():
    """Threads capture on both devices at once, and give the graphs up."""

    def work(device: int) -> None:
        with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                graph = torch.cuda.CUDAGraph()
                graph.capture_begin(capture_error_mode="thread_local")
                inside = [taken(3 * MIB, device) for _ in range(4)]
                graph.capture_end()
                outside = taken(3 * MIB, device)
                ranges = [(tensor.data_ptr(), 3 * MIB) for tensor in inside]
                check(not any(overlap((outside.data_ptr(), 3 * MIB), other) for other in ranges), "outside is inside")
                check(all(tensor.device.index == device for tensor in inside), "a tensor is on another device")
                del inside, outside
                graph.reset()

    wrong = run_all([lambda device=number % 2: work(device) for number in range(6)])
    return wrong, given_back()


@probe(environment=TWO)
def graphs_of_two_devices():
    graphs, tensors = [], []
    for device in (0, 1):
        with torch.cuda.device(device):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                tensors.append(taken((20 + 20 * device) * MIB, device))
            graphs.append(graph)
    check_inside(tensors)
    for graph in graphs:
        graph.replay()
    held = [private_bytes(device) for device in (0, 1)]
    graphs[1].reset()
    del tensors[1]
    torch.cuda.empty_cache()
    return held, [private_bytes(device) for device in (0, 1)], torch.cuda.current_device()


@probe(environment=TWO)
def one_pool_on_two_devices():
    """A pool of one device is used on another one."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        first = taken(60 * MIB, 0)
        other = taken(40 * MIB, 1)
    with torch.cuda.use_mem_pool(pool, device=torch.device("cuda:1")):
        second = taken(60 * MIB, 1)
        third = taken(20 * MIB, 0)
    found = [private_bytes(device) for device in (0, 1)]
    sizes = [tensor.numel() for tensor in (first, other, second, third)]
    del first, other, second, third, pool
    return found, sizes, given_back()


@probe(environment=TWO)
def peer_copies_between_pools():
    pools = []
    tensors = []
    for device in (0, 1):
        with torch.cuda.device(device):
            pools.append(torch.cuda.MemPool())
            with torch.cuda.use_mem_pool(pools[-1]):
                tensors.append(taken(40 * MIB, device))
    tensors[0].copy_(tensors[1])
    with torch.cuda.use_mem_pool(pools[0]):
        tensors.append(tensors[1].to("cuda:0"))
    return [private_bytes(device) for device in (0, 1)], [tensor.device.index for tensor in tensors]


@probe(environment=TWO)
def histories_of_two_devices():
    """Each entry has the pool that it is about."""
    torch.cuda.memory._record_memory_history()
    kept = []
    for device in (0, 1):
        with torch.cuda.device(device):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                kept.append(taken((20 + 20 * device) * MIB, device))
            kept.append(taken(5 * MIB, device))
            kept.append(graph)
    traces = torch.cuda.memory._snapshot()["device_traces"]
    found = [
        [(entry["size"], entry["pool_id"] == (0, 0)) for entry in trace if entry["action"] == "alloc"]
        for trace in traces
    ]
    return found, len(kept)


@probe(environment=TWO)
def compiled_on_the_second_device():
    """cudagraph trees on a device that is not the first."""
    shapes = []
    with torch.cuda.device(1):
        compiled = torch.compile(lambda given: (given + 1).relu(), backend="cudagraphs", dynamic=False)
        for size in (1000, 2000, 1000, 2000, 1000):
            torch.compiler.cudagraph_mark_step_begin()
            shapes.append(list(compiled(torch.zeros(size, device="cuda:1")).shape))
    return shapes, private_bytes(0), private_bytes(1) > 0


@probe()
def many_graphs_in_one_pool():
    """Graphs share a pool and go in another order than they came."""
    handle = torch.cuda.graph_pool_handle()
    graphs, results = [], []
    for number in range(10):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=handle):
            results.append(taken((number + 1) * 4 * MIB))
        graphs.append(graph)
    held = private_bytes()
    for number in (5, 0, 9, 3, 7, 1, 8, 2, 6):
        graphs[number].reset()
    results.clear()
    torch.cuda.empty_cache()
    kept = private_bytes()
    graphs[4].replay()
    outside = [taken(64 * MIB) for _ in range(10)]
    graphs[4].reset()
    del outside
    return held >= 220 * MIB, kept == held, given_back()


@probe()
def a_pool_that_is_deleted_while_a_graph_uses_it():
    pool = torch.cuda.MemPool()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool.id):
        inside = taken(60 * MIB)
    at = inside.data_ptr()
    del inside, pool
    torch.cuda.empty_cache()
    held = private_bytes()
    others = [taken(60 * MIB) for _ in range(10)]
    check(not any(overlap((at, 60 * MIB), (o.data_ptr(), 60 * MIB)) for o in others), "a graph's memory was given away")
    graph.replay()
    del others
    graph.reset()
    return held, given_back()


@probe()
def a_pool_that_is_deleted_while_it_is_used():
    """The last name of the pool goes inside its block."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        first = taken(60 * MIB)
        del pool
        second = taken(40 * MIB)
    outside = taken(20 * MIB)
    found = private_bytes() > 0, [tensor.numel() for tensor in (first, second, outside)]
    del first, second, outside
    return found, given_back()


@probe()
def the_same_pool_inside_itself():
    pool = torch.cuda.MemPool()
    kept = []
    try:
        with torch.cuda.use_mem_pool(pool):
            kept.append(taken(40 * MIB))
            with torch.cuda.use_mem_pool(pool):
                kept.append(taken(40 * MIB))
            kept.append(taken(40 * MIB))
        found = "no error"
    except Exception as error:
        found = type(error).__name__
    kept.append(taken(40 * MIB))
    return found, sum(segment["total_size"] for segment in pool.snapshot()), len(kept), torch.cuda.memory_allocated()


@probe()
def nested_pools_in_another_order():
    """The outer pool ends before the inner one."""
    first, second = torch.cuda.MemPool(), torch.cuda.MemPool()
    outer, inner = torch.cuda.use_mem_pool(first), torch.cuda.use_mem_pool(second)
    outer.__enter__()
    kept = [taken(30 * MIB)]
    inner.__enter__()
    kept.append(taken(40 * MIB))
    outer.__exit__(None, None, None)
    kept.append(taken(50 * MIB))
    inner.__exit__(None, None, None)
    kept.append(taken(60 * MIB))
    live = [sum(segment["allocated_size"] for segment in pool.snapshot()) for pool in (first, second)]
    return live, torch.cuda.memory_allocated(), len(kept)


@probe()
def a_pool_inside_a_capture():
    """Tensors of a `MemPool` are made while a graph is captured."""
    pool = torch.cuda.MemPool()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first = taken(30 * MIB)
        with torch.cuda.use_mem_pool(pool):
            second = taken(40 * MIB)
        third = taken(50 * MIB)
    live = sum(segment["allocated_size"] for segment in pool.snapshot())
    del first, second, third
    torch.cuda.empty_cache()
    held = private_bytes()
    graph.replay()
    return live, held >= 120 * MIB, torch.cuda.memory_allocated()


class OwnError(Exception):
    """An error of the program."""


@probe()
def errors_of_the_program_inside_captures():
    """The program goes on with other graphs in the same pool, and everything comes back."""
    handle = torch.cuda.graph_pool_handle()
    found = []
    for number in range(6):
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=handle):
                inside = taken(30 * MIB)
                if number % 2:
                    raise OwnError
            found.append(inside.numel())
        except Exception as error:
            found.append(type(error).__name__)
        inside = None
        outside = taken(30 * MIB)
        found.append(outside.numel())
        del outside, graph
    return found, given_back()


@probe()
def errors_of_the_program_inside_a_pool():
    pool = torch.cuda.MemPool()
    for _ in range(3):
        try:
            with torch.cuda.use_mem_pool(pool):
                inside = taken(30 * MIB)
                raise OwnError
        except OwnError:
            pass
    outside = taken(30 * MIB)
    live = sum(segment["allocated_size"] for segment in pool.snapshot())
    del inside, pool
    count = outside.numel()
    del outside
    return live, count, given_back()


@probe()
def a_fraction_during_a_capture():
    """What PyTorch may use changes while a graph is captured."""
    outside = taken(20 * GIB)
    graph = torch.cuda.CUDAGraph()
    found = []
    with torch.cuda.graph(graph):
        inside = [taken(10 * GIB)]
        torch.cuda.set_per_process_memory_fraction(0.5)
        try:
            inside.append(taken(20 * GIB))
            found.append("no error")
        except torch.OutOfMemoryError:
            found.append("OutOfMemoryError")
        inside.append(taken(5 * GIB))
        torch.cuda.set_per_process_memory_fraction(1.0)
        inside.append(taken(20 * GIB))
    graph.replay()
    torch.cuda.set_per_process_memory_fraction(0.1)
    try:
        taken(GIB)
        found.append("no error")
    except torch.OutOfMemoryError:
        found.append("OutOfMemoryError")
    return found, len(inside), outside.numel(), stat("num_ooms")


@probe()
def a_limit_during_a_capture():
    """A capture during which the limit of memlake's pool is lowered and raised again."""
    outside = taken(20 * GIB)
    graph = torch.cuda.CUDAGraph()
    found = []
    with torch.cuda.graph(graph):
        inside = [taken(10 * GIB)]
        mode.limit("50%")
        try:
            inside.append(taken(20 * GIB))
            found.append("no error")
        except torch.OutOfMemoryError:
            found.append("OutOfMemoryError")
        inside.append(taken(5 * GIB))
        mode.limit("100%")
        inside.append(taken(20 * GIB))
    graph.replay()
    return found, len(inside), outside.numel(), stat("num_ooms")


@probe()
def the_cache_is_emptied_during_a_capture():
    """By the capturing thread and by another one; the graph is whole."""
    for size in (100, 200):
        taken(size * MIB)
    graph = torch.cuda.CUDAGraph()
    found: list[str] = []

    def empty() -> None:
        try:
            torch.cuda.empty_cache()
            found.append("emptied")
        except Exception as error:
            found.append(type(error).__name__)

    with torch.cuda.graph(graph, capture_error_mode="relaxed"):
        first = taken(30 * MIB)
        empty()
        second = taken(30 * MIB)
        del first
        run_all([empty])
        third = taken(30 * MIB)
    graph.replay()
    torch.cuda.empty_cache()
    return found, second.numel() + third.numel(), torch.cuda.memory_allocated()


@probe()
def others_work_during_captures():
    """One thread captures; others allocate, free, ask and use pools of their own."""
    is_over = threading.Event()

    def capture() -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(30):
                    graph = torch.cuda.CUDAGraph()
                    graph.capture_begin(capture_error_mode="thread_local")
                    kept = [taken(3 * MIB) for _ in range(5)]
                    del kept[::2]
                    graph.capture_end()
                    graph.replay()
                    del kept
                    graph.reset()
        finally:
            is_over.set()

    def ask() -> None:
        while not is_over.is_set():
            torch.cuda.memory_stats()
            torch.cuda.memory_snapshot()

    def use() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):  # expandable segments have addresses for some hundred pools
                pool = torch.cuda.MemPool()
                with torch.cuda.use_mem_pool(pool):
                    kept = [taken(2 * MIB) for _ in range(3)]
                outside = taken(2 * MIB)
                check(all(abs(t.data_ptr() - outside.data_ptr()) >= 2 * MIB for t in kept), "outside is inside")

    wrong = run_all([capture, ask, use, use])
    return wrong, given_back()


@probe()
def a_pool_that_another_thread_uses():
    """PyTorch lets one thread at a time use a pool."""
    pool = torch.cuda.MemPool()

    def use() -> None:
        with torch.cuda.use_mem_pool(pool):
            taken(20 * MIB)

    with torch.cuda.use_mem_pool(pool):
        first = taken(20 * MIB)
        wrong = run_all([use])
        second = taken(20 * MIB)
    later = run_all([use])
    live = sum(segment["allocated_size"] for segment in pool.snapshot())
    return [error.split(":")[0] for error in wrong], later, live, first.numel() + second.numel()


@probe()
def several_pools_for_a_full_device():
    """Requests outside take the free memory of pools that allow it, and live longer than the pools."""
    pools = [torch.cuda.MemPool(use_on_oom=True) for _ in range(2)]
    inside = []
    for pool in pools:
        with torch.cuda.use_mem_pool(pool):
            inside.append(taken(35 * GIB))
    inside.clear()
    outside = [taken(30 * GIB), taken(30 * GIB)]
    check_inside(outside)
    try:
        taken(30 * GIB)
        found = "no error"
    except torch.OutOfMemoryError:
        found = "OutOfMemoryError"
    del pools, pool
    torch.cuda.empty_cache()
    during = torch.cuda.memory_allocated()
    check_inside(outside)
    del outside
    return found, during, given_back(), taken(70 * GIB).numel()


@probe()
def a_pool_that_may_be_used_and_a_graph():
    """A graph has captured memory of a pool that may be used when the device is full."""
    pool = torch.cuda.MemPool(use_on_oom=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool.id):
        inside = taken(50 * GIB)
    del inside
    try:
        outside = taken(40 * GIB).numel()
    except torch.OutOfMemoryError:
        outside = 0
    graph.replay()
    return outside, stat("num_ooms")


@probe()
def failures_in_many_pools_at_once():
    """Threads fail in private pools at the same time; each gets its error, and the fraction stays."""
    outside = taken(50 * GIB)
    refused: list[int] = []

    def work() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(10):
                pool = torch.cuda.MemPool()
                with torch.cuda.use_mem_pool(pool):
                    try:
                        taken(40 * GIB)
                    except torch.OutOfMemoryError:
                        refused.append(1)
                    kept = taken(2 * MIB)
                del kept, pool

    wrong = run_all([work] * 4)
    return wrong, len(refused), stat("num_ooms"), torch.cuda.get_per_process_memory_fraction(), outside.numel()


@probe()
def a_graph_that_is_captured_twice():
    """The second capture takes the place of the first."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first = taken(30 * MIB)
    del first
    graph.reset()
    with torch.cuda.graph(graph):
        second = taken(40 * MIB)
    graph.replay()
    count = second.numel()
    del second, graph
    return count, given_back()


@probe()
def a_thousand_graphs_that_go():
    """Each graph has a pool of its own, and the cache is never emptied. 128 TiB of addresses are not enough for all."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(1600):
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin()
            inside = [taken(3 * MIB), taken(1000)]
            graph.capture_end()
            graph.replay()
            del inside
            graph.reset()
    return stat("num_ooms"), given_back()
