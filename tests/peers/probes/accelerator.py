"""Probes of `torch.accelerator`, which sees the allocator by another way than `torch.cuda`."""

from __future__ import annotations

import torch
from inside.books import FAMILIES
from inside.probe import check, probe
from inside.tensors import MIB, churn, taken


@probe()
def statistics():
    kept = churn()
    ours, theirs = torch.accelerator.memory_stats(), torch.cuda.memory_stats()
    for family in FAMILIES:
        for figure in ("current", "peak", "allocated", "freed"):
            name = f"{family}.all.{figure}"
            check(ours.get(name) == theirs[name], f"{name}: accelerator {ours.get(name)}, cuda {theirs[name]}")
    return sorted(ours), len(kept)


@probe()
def figures():
    kept = [taken(8 * MIB), taken(1000)]
    check(torch.accelerator.memory_reserved() == torch.cuda.memory_reserved(), "reserved differs from torch.cuda")
    check(torch.accelerator.max_memory_reserved() == torch.cuda.max_memory_reserved(), "its peak differs")
    check(torch.accelerator.get_memory_info() == torch.cuda.mem_get_info(), "the device's memory differs")
    return torch.accelerator.memory_allocated(), torch.accelerator.max_memory_allocated(), len(kept)


@probe()
def empty_cache():
    kept = churn()
    del kept
    torch.accelerator.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return total - free


@probe()
def resets():
    kept = taken(8 * MIB)
    other = taken(64 * MIB)
    del other
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.reset_accumulated_memory_stats()
    stats = torch.accelerator.memory_stats()
    return torch.accelerator.max_memory_allocated(), stats["allocation.all.allocated"], kept.numel()


@probe()
def snapshot():
    kept = taken(8 * MIB)
    whole = torch.accelerator.memory._snapshot() if hasattr(torch.accelerator.memory, "_snapshot") else None
    return sorted(whole) if whole else None, kept.numel()


@probe()
def graph():
    """The common interface for graphs, where this version has one."""
    if not hasattr(torch.accelerator, "Graph"):
        return "none"
    found = torch.accelerator.Graph()
    with found:
        kept = taken(8 * MIB)
    found.replay()
    return kept.numel()
