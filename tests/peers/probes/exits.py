"""Probes of the end of a process: every order ends with exit code 0 and says nothing."""

from __future__ import annotations

import atexit
import builtins
import gc
import threading

import torch
from inside import mode
from inside.probe import probe
from inside.tensors import MIB, taken

kept: list[object] = []


@probe(fresh=True)
def tensors_in_globals():
    kept.extend(taken(MIB) for _ in range(10))
    return len(kept)


@probe(fresh=True)
def tensors_in_builtins():
    builtins.kept_tensors = [taken(MIB) for _ in range(10)]  # type: ignore[attr-defined]
    return len(builtins.kept_tensors)  # type: ignore[attr-defined]


@probe(fresh=True)
def tensors_in_torch():
    torch.kept_tensors = [taken(MIB) for _ in range(10)]
    return len(torch.kept_tensors)


@probe(fresh=True)
def tensors_in_a_cycle():
    gc.disable()
    cycle: list[object] = [taken(MIB)]
    cycle.append(cycle)
    return len(cycle)


@probe(fresh=True)
def tensors_in_an_exit_handler():
    tensor = taken(MIB)
    atexit.register(lambda: (tensor + 1, taken(MIB), torch.cuda.empty_cache()))
    return tensor.numel()


@probe(fresh=True)
def a_thread_that_allocates():
    def allocate() -> None:
        for _ in range(20000):
            taken(MIB)

    threading.Thread(target=allocate).start()
    return "running"


@probe(fresh=True)
def a_daemon_that_holds_tensors():
    begun, never = threading.Event(), threading.Event()

    def hold() -> None:
        held = [taken(MIB) for _ in range(10)]
        begun.set()
        never.wait()
        held.clear()

    threading.Thread(target=hold, daemon=True).start()
    begun.wait()
    return "waiting"


@probe(fresh=True)
def a_live_graph():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept.append(taken(MIB))
    kept.append(graph)
    return len(kept)


@probe(fresh=True)
def a_live_pool():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept.append(taken(MIB))
    kept.append(pool)
    return len(kept)


@probe(fresh=True)
def streams_and_recorded_tensors():
    side = torch.cuda.Stream()
    tensor = taken(MIB)
    tensor.record_stream(side)
    kept.extend((side, tensor))
    return len(kept)


@probe(fresh=True, environment={"FAKE_CUDA_EVENT_QUERIES": "2000000000"})
def memory_that_waits_for_a_stream():
    side = torch.cuda.Stream()
    tensor = taken(MIB)
    tensor.record_stream(side)
    del tensor
    return torch.cuda.memory_allocated()


@probe(fresh=True)
def a_history_and_an_observer():
    torch.cuda.memory._record_memory_history()
    torch._C._cuda_attach_out_of_memory_observer(lambda *given: kept.append(given))
    kept.append(taken(MIB))
    return len(kept)


@probe(fresh=True)
def two_devices():
    kept.extend((taken(MIB, 0), taken(MIB, torch.cuda.device_count() - 1)))
    return len(kept)


@probe(fresh=True)
def uninstalled_with_live_tensors():
    kept.append(taken(MIB))
    mode.uninstall()
    kept.append(taken(MIB))
    return len(kept)


@probe(fresh=True, books=False)
def nothing_was_allocated():
    return torch.cuda.is_initialized()


@probe(fresh=True)
def compiled_graphs():
    compiled = torch.compile(lambda given: given + 1, backend="cudagraphs")
    for _ in range(3):
        torch.compiler.cudagraph_mark_step_begin()
        kept.append(compiled(torch.zeros(1000, device="cuda")).shape)
    kept.append(compiled)
    return len(kept)


@probe(fresh=True)
def workers_of_a_loader():
    from torch.utils.data import DataLoader, TensorDataset

    kept.append(taken(MIB))
    loader = DataLoader(TensorDataset(torch.zeros(64, 8)), batch_size=8, num_workers=2, pin_memory=True)
    return [list(batch.cuda(non_blocking=True).shape) for (batch,) in loader]


@probe(fresh=True, books=False)
def a_live_graph_after_the_installation():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept.append(taken(MIB))
    mode.uninstall()
    graph.replay()
    kept.append(graph)
    return len(kept)


@probe(fresh=True, books=False)
def a_live_pool_after_the_installation():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept.append(taken(MIB))
    mode.uninstall()
    kept.append(pool)
    return len(kept)


@probe(fresh=True)
def private_pools_from_before_the_installation():
    mode.uninstall()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept.append(taken(MIB))
    mode.install()
    kept.extend((graph, taken(MIB)))
    return len(kept)


@probe(fresh=True)
def tensors_of_a_dead_pool():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept.append(taken(MIB))
    del pool
    torch.cuda.empty_cache()
    return len(kept)


@probe(fresh=True)
def a_graph_in_a_cycle():
    gc.disable()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        cycle: list[object] = [graph, taken(MIB)]
    cycle.append(cycle)
    return len(cycle)


@probe(fresh=True)
def a_graph_in_an_exit_handler():
    def capture() -> None:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept.append(taken(MIB))
        graph.replay()
        kept.append(graph)

    taken(MIB)
    atexit.register(capture)
    return "registered"


@probe(fresh=True)
def inside_a_pool():
    """The program ends inside the block of a pool."""
    pool = torch.cuda.MemPool()
    used = torch.cuda.use_mem_pool(pool)
    used.__enter__()
    kept.extend((pool, used, taken(MIB)))
    return len(kept)


@probe(fresh=True, books=False)
def daemons_with_private_pools():
    """One thread is inside a capture, another inside the block of a pool, until the process ends."""
    begun, never = threading.Barrier(3), threading.Event()
    errors: list[Exception] = []

    def capture() -> None:
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        kept.append(taken(MIB))
        begun.wait()
        never.wait()

    def use() -> None:
        with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
            kept.append(taken(MIB))
            begun.wait()
            never.wait()

    def run(work) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                work()
        except Exception as error:
            errors.append(error)
            begun.abort()

    taken(MIB)
    for work in (capture, use):
        threading.Thread(target=run, args=(work,), daemon=True).start()
    try:
        begun.wait()
    except threading.BrokenBarrierError:
        raise errors[0] from None
    return "waiting"
