"""Probes of `torch.compile`."""

from __future__ import annotations

import torch
from inside.books import segments_of, stat
from inside.probe import check, probe
from inside.tensors import taken

ONE_PROCESS = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}


def model_of(width: int = 256) -> torch.nn.Module:
    """A small model."""
    return torch.nn.Sequential(
        torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
    ).cuda()


@probe()
def aot_eager():
    compiled = torch.compile(model_of(), backend="aot_eager")
    compiled(torch.zeros(8, 256, device="cuda")).sum().backward()
    return stat("requested_bytes.all.current"), stat("requested_bytes.all.peak")


@probe()
def cudagraphs():
    compiled = torch.compile(lambda given: (given + 1) * 2, backend="cudagraphs")
    given = torch.zeros(1 << 20, device="cuda")
    shapes = []
    for _ in range(5):
        torch.compiler.cudagraph_mark_step_begin()
        result = compiled(given)
        shapes.append(list(result.shape))
        del result
    private = [segment for segment in segments_of(0) if tuple(segment["segment_pool_id"]) != (0, 0)]
    return shapes, len(private) > 0


@probe()
def cudagraph_trees():
    """Two functions share a private pool, and the second has two paths, so states of the pool are set again."""
    first = torch.compile(lambda given: given * 2 + 1, backend="cudagraphs")
    second = torch.compile(lambda given: (given - 1).relu(), backend="cudagraphs", dynamic=False)
    given = torch.zeros(1 << 18, device="cuda")
    other = torch.zeros(1 << 17, device="cuda")
    for number in range(8):
        torch.compiler.cudagraph_mark_step_begin()
        between = first(given)
        result = second(between) if number % 2 else second(other)
        del between, result
    return stat("num_ooms"), stat("allocation.all.current") > 0


@probe()
def cudagraph_trees_with_backward():
    model = model_of()
    compiled = torch.compile(model, backend="cudagraphs")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        compiled(torch.zeros(8, 256, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return stat("num_ooms")


@probe(environment=ONE_PROCESS)
def inductor():
    compiled = torch.compile(lambda given: (given + 1).relu().sum())
    result = compiled(torch.zeros(1 << 16, device="cuda"))
    return list(result.shape)


@probe(environment=ONE_PROCESS)
def inductor_reduce_overhead():
    compiled = torch.compile(lambda given: (given + 1).relu() * 2, mode="reduce-overhead")
    given = torch.zeros(1 << 16, device="cuda")
    for _ in range(5):
        torch.compiler.cudagraph_mark_step_begin()
        result = compiled(given)
        del result
    private = [segment for segment in segments_of(0) if tuple(segment["segment_pool_id"]) != (0, 0)]
    check(len(private) > 0, "no graph was recorded")
    return len(private) > 0


@probe(environment=ONE_PROCESS)
def inductor_training():
    model = model_of()
    compiled = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(5):
        torch.compiler.cudagraph_mark_step_begin()
        compiled(torch.zeros(8, 256, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return stat("num_ooms")


@probe()
def compile_context_in_the_history():
    torch.cuda.memory._record_memory_history(compile_context=True)
    compiled = torch.compile(lambda given: given + 1, backend="aot_eager")
    result = compiled(taken(1000))
    found = torch.cuda.memory._snapshot()["device_traces"][0]
    return sorted({str(entry.get("compile_context")) for entry in found}), result.numel()
