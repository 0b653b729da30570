"""Probes of several devices."""

from __future__ import annotations

import torch
from inside.books import check_inside, stat
from inside.probe import check, probe
from inside.tensors import GIB, MIB, taken

TWO = {"FAKE_CUDA_DEVICES": "2"}


@probe(environment=TWO)
def figures_of_each():
    kept = [taken(30 * MIB, 0), taken(40 * MIB, 1), taken(50 * MIB, 1)]
    check_inside(kept)
    return [torch.cuda.memory_allocated(device) for device in (0, 1)], torch.cuda.current_device()


@probe(environment=TWO)
def peaks_of_each():
    taken(30 * MIB, 0)
    taken(40 * MIB, 1)
    torch.cuda.reset_peak_memory_stats(1)
    return [torch.cuda.max_memory_allocated(device) for device in (0, 1)]


@probe(environment=TWO)
def peer_copies():
    first = taken(30 * MIB, 0)
    second = first.to("cuda:1")
    second.copy_(first)
    first.copy_(second, non_blocking=True)
    side = torch.cuda.Stream(1)
    with torch.cuda.stream(side):
        third = first.to("cuda:1", non_blocking=True)
    return second.device.index, third.device.index, [torch.cuda.memory_allocated(device) for device in (0, 1)]


@probe(environment=TWO)
def peer_access():
    kept = taken(1, 0)
    return torch.cuda.can_device_access_peer(0, 1), kept.numel()


@probe(environment=TWO)
def a_full_device_beside_an_empty_one():
    kept = taken(70 * GIB, 0)
    try:
        taken(20 * GIB, 0)
        found = "no error"
    except torch.OutOfMemoryError as error:
        found = str(error).split(" has a total")[0]
    other = taken(20 * GIB, 1)
    return found, stat("num_ooms", 0), stat("num_ooms", 1), kept.numel() + other.numel()


@probe(environment=TWO)
def fraction_of_one():
    torch.cuda.set_per_process_memory_fraction(0.1, 1)
    kept = taken(20 * GIB, 0)
    try:
        taken(20 * GIB, 1)
        found = "no error"
    except torch.OutOfMemoryError:
        found = "OutOfMemoryError"
    return found, kept.numel(), [torch.cuda.get_per_process_memory_fraction(device) for device in (0, 1)]


@probe(environment=TWO)
def streams_of_the_other_device():
    side = torch.cuda.Stream(device=1)
    with torch.cuda.device(1), torch.cuda.stream(side):
        first = taken(30 * MIB, 1)
        second = taken(30 * MIB, 0)
    first.record_stream(torch.cuda.default_stream(1))
    size = first.numel() + second.numel()
    del first, second
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    torch.cuda.empty_cache()
    return size, [torch.cuda.memory_reserved(device) for device in (0, 1)]


@probe(environment=TWO)
def histories_of_each():
    torch.cuda.memory._record_memory_history()
    kept = [taken(30 * MIB, 0), taken(40 * MIB, 1)]
    traces = torch.cuda.memory._snapshot()["device_traces"]
    found = [[entry["size"] for entry in trace if entry["action"] == "alloc"] for trace in traces]
    return found, len(kept)


@probe(environment=TWO)
def a_wrong_device():
    found = []
    for name in ("cuda:2", "cuda:63"):
        try:
            taken(1, name)
            found.append("no error")
        except Exception as error:
            found.append(type(error).__name__)
    return found


@probe(environment=TWO)
def the_current_device_stays():
    torch.cuda.set_device(1)
    kept = taken(30 * MIB, 0)
    torch.cuda.memory_stats(0)
    torch.cuda.memory_snapshot()
    torch.cuda.empty_cache()
    check(torch.cuda.current_device() == 1, "the current device has changed")
    return torch.cuda.current_device(), kept.numel(), torch.empty(1, device="cuda").device.index
