"""Probes of CUDA graphs."""

from __future__ import annotations

import torch
from inside import mode
from inside.books import check_inside, stat
from inside.pools import private_bytes
from inside.probe import check, probe
from inside.tensors import GIB, MIB, taken


@probe()
def capture_and_replay():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first = taken(30 * MIB)
        result = first + 1
        at = first.data_ptr()
        del first
        second = taken(30 * MIB)
        reuses = second.data_ptr() == at
    graph.replay()
    inside = result.data_ptr(), second.data_ptr(), at
    del result, second
    outside = [taken(30 * MIB) for _ in range(4)]
    overlaps = any(abs(tensor.data_ptr() - address) < 30 * MIB for tensor in outside for address in inside)
    held = private_bytes()
    graph.reset()
    return reuses, overlaps, held, torch.cuda.memory_allocated()


@probe()
def memory_goes_back():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = taken(1 * GIB)
    del kept
    graph.reset()
    del graph
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved(), private_bytes()


@probe()
def shared_pool():
    handle = torch.cuda.graph_pool_handle()
    graphs = []
    for _ in range(2):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=handle):
            result = taken(64 * MIB) + 1
        del result
        graphs.append(graph)
    return [graph.pool() == handle for graph in graphs], private_bytes()


@probe()
def tensors_inside_are_in_the_snapshot():
    graph = torch.cuda.CUDAGraph()
    outside = taken(30 * MIB)
    with torch.cuda.graph(graph):
        inside = outside + 1
    check_inside([outside, inside])
    return torch.cuda.memory_allocated()


@probe()
def free_of_outer_memory_while_capturing():
    """Tensors from before the capture are freed during it: their memory must come back."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        first, second = taken(64 * MIB), taken(64 * MIB)
    recorded = taken(64 * MIB)
    recorded.record_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        inside = taken(MIB)
        del first, recorded
    torch.cuda.synchronize()
    taken(MIB)
    allocated = torch.cuda.memory_allocated()
    del second, inside
    graph.reset()
    del graph
    taken(MIB)
    torch.cuda.empty_cache()
    return allocated, torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


@probe()
def allocation_on_another_stream_while_capturing():
    """Another thread goes on allocating during a capture."""
    import threading

    graph = torch.cuda.CUDAGraph()
    found = []

    def work() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            kept = [taken(30 * MIB) for _ in range(50)]
            found.append(len(kept))
            del kept[::2]

    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        inside = taken(30 * MIB)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    return found, inside.numel(), torch.cuda.memory_allocated()


@probe()
def graphed_callables():
    model = torch.nn.Linear(64, 64).cuda()
    inputs = torch.randn(8, 64, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(model, (inputs,))
    graphed(inputs).sum().backward()
    return list(model.weight.grad.shape), stat("requested_bytes.all.current")


@probe()
def training_step_in_a_graph():
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
    inputs = torch.zeros(32, 256, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            model(inputs).sum().backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = model(inputs).sum()
        loss.backward()
        optimizer.step()
    for _ in range(5):
        graph.replay()
    return list(loss.shape), stat("requested_bytes.all.current"), private_bytes() > 0


@probe()
def error_inside_a_capture():
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            taken(200 * GIB)
        found = "no error"
    except Exception as error:
        found = type(error).__name__
    kept = taken(30 * MIB)
    return found, kept.numel()


@probe()
def checkpoint_of_a_pool():
    """What cudagraph trees do: they save the state of a private pool and set it again."""
    handle = torch.cuda.graph_pool_handle()
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(side), torch.cuda.graph(graph, pool=handle, stream=side):
        kept = taken(30 * MIB)
    state = torch._C._cuda_getCheckpointState(0, handle)
    live = torch._C._cuda_checkPoolLiveAllocations(0, handle, {kept.untyped_storage().data_ptr()})
    return type(state).__name__, live


@probe()
def a_state_of_a_pool_is_set_again():
    """What cudagraph trees do before they take another path: the pool gets the allocations that it had before."""
    handle = torch.cuda.graph_pool_handle()
    side = torch.cuda.Stream()
    graphs = []

    def captured(*sizes: int) -> list[torch.Tensor]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(side), torch.cuda.graph(graph, pool=handle, stream=side):
            tensors = [taken(size) for size in sizes]
        graphs.append(graph)
        return tensors

    first = captured(30 * MIB, 1000, 12 * MIB, 3000)
    del first[1]
    addresses = {tensor.data_ptr() for tensor in first}
    state = torch._C._cuda_getCheckpointState(0, handle)
    second = captured(10 * MIB, 2000, 700)
    del first[0]
    third = captured(8 * MIB)
    is_other = torch._C._cuda_checkPoolLiveAllocations(0, handle, addresses)
    stale = [tensor.untyped_storage()._cdata for tensor in first + second + third]
    torch._C._cuda_setCheckpointPoolState(0, state, stale, [])
    is_again = torch._C._cuda_checkPoolLiveAllocations(0, handle, addresses)
    fourth = captured(1000)
    overlaps = any(abs(fourth[0].data_ptr() - address) < 512 for address in addresses)
    return is_other, is_again, overlaps, len(graphs), stat("num_ooms")


@probe(environment={"FAKE_CUDA_EVENT_QUERIES": "2000000000"})
def a_state_of_a_pool_that_cannot_be_set():
    """Another stream still uses memory that the earlier state had."""
    handle = torch.cuda.graph_pool_handle()
    side = torch.cuda.Stream()
    graphs = []

    def captured(*sizes: int) -> list[torch.Tensor]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(side), torch.cuda.graph(graph, pool=handle, stream=side):
            tensors = [taken(size) for size in sizes]
        graphs.append(graph)
        return tensors

    first = captured(30 * MIB, 1000)
    state = torch._C._cuda_getCheckpointState(0, handle)
    second = captured(12 * MIB, 3000)
    first[0].record_stream(torch.cuda.default_stream())
    del first[0]
    tensors = first + second
    live = {tensor.data_ptr() for tensor in tensors}
    if mode.uses_memlake():  # PyTorch's own allocators end the process here
        try:
            torch._C._cuda_setCheckpointPoolState(0, state, [t.untyped_storage()._cdata for t in tensors], [])
            check(False, "the state was set over memory that another stream uses")
        except RuntimeError as error:
            check("another stream still uses" in str(error), f"other words: {error}")
    is_as_before = torch._C._cuda_checkPoolLiveAllocations(0, handle, live)
    check_inside(tensors)
    return is_as_before, torch.cuda.memory_allocated(), len(graphs)


@probe()
def a_state_of_a_pool_that_has_gone():
    """Setting it is an error, and changes nothing."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inside = taken(30 * MIB)
    state = torch._C._cuda_getCheckpointState(0, graph.pool())
    graph.reset()
    del inside
    torch.cuda.empty_cache()
    outside = taken(30 * MIB)
    try:
        torch._C._cuda_setCheckpointPoolState(0, state, [], [])
        found = "no error"
    except Exception as error:
        found = type(error).__name__
    return found, outside.numel(), torch.cuda.memory_allocated()


@probe()
def a_graph_after_the_cache_has_everything():
    """Everything is cached outside; a graph needs 40 GiB of it."""
    kept = [taken(30 * GIB) for _ in range(2)]
    del kept
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inside = taken(40 * GIB)
    check(torch.cuda.memory_reserved() <= 80 * GIB, "more is reserved than the device has")
    return inside.numel(), stat("num_ooms"), torch.cuda.memory_allocated()


@probe()
def memory_after_a_graph_died():
    """A dead graph's memory is cached; a tensor outside needs it."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inside = taken(60 * GIB)
    del inside
    graph.reset()
    del graph
    outside = taken(70 * GIB)
    return outside.numel(), stat("num_ooms")


@probe()
def memory_of_a_live_graph_is_kept():
    """A live graph keeps its memory: a request outside fails, and succeeds after the graph has gone."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inside = taken(60 * GIB)
    try:
        taken(40 * GIB)
        found = "no error"
    except torch.OutOfMemoryError:
        found = "OutOfMemoryError"
    del inside
    graph.reset()
    del graph
    return found, taken(40 * GIB).numel()


@probe()
def threads_that_capture():
    """Threads capture graphs with pools of their own, and give them up, side by side."""
    import threading

    wrong: list[str] = []

    def work() -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(30):
                    graph = torch.cuda.CUDAGraph()
                    graph.capture_begin(capture_error_mode="thread_local")
                    inside = [taken(3 * MIB) for _ in range(4)]
                    graph.capture_end()
                    outside = taken(3 * MIB)
                    if any(abs(outside.data_ptr() - tensor.data_ptr()) < 3 * MIB for tensor in inside):
                        wrong.append("a tensor from outside lies in a graph's memory")
                    del inside, outside
                    graph.reset()
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {str(error).splitlines()[0]}")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return wrong, torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
