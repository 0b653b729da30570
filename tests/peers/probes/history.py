"""Probes of `_record_memory_history` with all of its arguments."""

from __future__ import annotations

import contextlib
import gc
import sys
from pathlib import Path
from typing import Any

import torch
from inside.books import blocks_of, segments_of
from inside.probe import check, probe
from inside.tensors import GIB, MIB, churn, taken

REQUESTS = ("alloc", "free_requested", "free_completed")


def entries(device: int = 0) -> list[dict[str, Any]]:
    """The history of a device."""
    return torch.cuda.memory._snapshot()["device_traces"][device]


def requests() -> list[Any]:
    """What the program did, without what the allocator did for it."""
    return [[entry["action"], entry["size"]] for entry in entries() if entry["action"] in REQUESTS]


def frame_files(entry: dict[str, Any]) -> list[str]:
    """The files of the Python frames of an entry."""
    return [Path(frame["filename"]).name for frame in entry.get("frames", [])]


def two_tensors() -> None:
    """Two allocations and two frees."""
    first = taken(8 * MIB)
    second = taken(1000)
    del second, first


@probe()
def of_two_tensors():
    torch.cuda.memory._record_memory_history()
    two_tensors()
    return requests()


@probe()
def form_of_entries():
    torch.cuda.memory._record_memory_history()
    two_tensors()
    found = {}
    for entry in entries():
        found.setdefault(entry["action"], sorted(entry))
    return {name: found[name] for name in REQUESTS}


@probe()
def allocations_match_frees():
    """Every free has its allocation, with the same address and size; the rest is what is live."""
    torch.cuda.memory._record_memory_history()
    kept = churn()
    live: dict[int, int] = {}
    waiting: dict[int, int] = {}
    for entry in entries():
        at, size = entry["addr"], entry["size"]
        if entry["action"] == "alloc":
            check(at not in live and at not in waiting, f"an address in use is allocated again: {at:#x}")
            live[at] = size
        elif entry["action"] == "free_requested":
            check(live.pop(at, None) == size, f"{size} bytes at {at:#x} are freed that were not allocated")
            waiting[at] = size
        elif entry["action"] == "free_completed":
            check(waiting.pop(at, None) == size, f"a free of {size} bytes at {at:#x} ends that did not begin")
    check(live == {tensor.data_ptr(): tensor.numel() for tensor in kept}, "what is left is not what is live")
    return len(live), len(waiting)


@probe()
def segments_account_for_the_reserved_bytes():
    torch.cuda.memory._record_memory_history()
    kept = churn()
    torch.cuda.empty_cache()
    held = 0
    for entry in entries():
        if entry["action"] in ("segment_alloc", "segment_map"):
            held += entry["size"]
        elif entry["action"] in ("segment_free", "segment_unmap"):
            held -= entry["size"]
        check(held >= 0, "more segments were freed than allocated")
    check(held == torch.cuda.memory_reserved(), f"by the history {held} bytes are reserved")
    return len(kept)


@probe()
def blocks_lie_in_segments_of_the_history():
    """At every moment of the history a new block lies in memory that the history has given to the allocator."""
    torch.cuda.memory._record_memory_history()
    kept = churn()
    mapped: dict[int, int] = {}
    for entry in entries():
        at, size = entry["addr"], entry["size"]
        if entry["action"] in ("segment_alloc", "segment_map"):
            mapped[at] = size
        elif entry["action"] in ("segment_free", "segment_unmap"):
            for begin in [begin for begin in mapped if at <= begin < at + size]:
                del mapped[begin]
            for begin, length in list(mapped.items()):
                if begin < at < begin + length:
                    mapped[begin] = at - begin
                    if at + size < begin + length:
                        mapped[at + size] = begin + length - at - size
        elif entry["action"] == "alloc":
            reached = at
            for begin, length in sorted(mapped.items()):
                if begin <= reached < begin + length:
                    reached = begin + length
            check(reached >= at + size, f"{size} bytes at {at:#x} lie outside of the segments")
    return len(kept)


@probe()
def times_and_streams():
    torch.cuda.memory._record_memory_history()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        two_tensors()
    two_tensors()
    times = [entry["time_us"] for entry in entries()]
    check(times == sorted(times), "the history is not in the order of its times")
    allocations = [entry for entry in entries() if entry["action"] == "alloc"]
    return [entry["stream"] == side.cuda_stream for entry in allocations]


@probe()
def stacks_of_python():
    torch.cuda.memory._record_memory_history(stacks="python")
    two_tensors()
    here = Path(__file__).name
    return [[entry["action"], here in frame_files(entry)] for entry in entries() if entry["action"] in REQUESTS]


@probe()
def stacks_of_cpp():
    torch.cuda.memory._record_memory_history(stacks="all")
    two_tensors()
    names = [frame["name"] for entry in entries() if entry["action"] == "alloc" for frame in entry["frames"]]
    return any("at::" in name or "c10::" in name for name in names)


@probe()
def contexts():
    """Which entries and blocks have stacks, for each context."""
    found = {}
    for context in ("all", "alloc", "state", None):
        torch.cuda.memory._record_memory_history(context=context, clear_history=True, stacks="python")
        kept = taken(5 * MIB)
        two_tensors()
        with_stack = [
            [entry["action"], bool(entry.get("frames"))] for entry in entries() if entry["action"] in REQUESTS
        ]
        live = [bool(block.get("frames")) for block in blocks_of(0) if block["state"] == "active_allocated"]
        found[str(context)] = with_stack, live
        torch.cuda.memory._record_memory_history(None)
        del kept
    return found


@probe()
def only_the_state():
    torch.cuda.memory._record_memory_history("state")
    kept = taken(5 * MIB)
    two_tensors()
    live = [block for block in blocks_of(0) if block["state"] == "active_allocated"]
    return len(entries()), [Path(__file__).name in frame_files(block) for block in live], kept.numel()


@probe()
def stacks_of_live_blocks():
    torch.cuda.memory._record_memory_history()
    kept = taken(5 * MIB)
    live = [block for block in blocks_of(0) if block["state"] == "active_allocated"]
    of_address = torch.cuda.memory._allocation_traceback(kept.data_ptr())
    return [Path(__file__).name in frame_files(block) for block in live], bool(of_address)


@probe()
def stack_of_an_unknown_address():
    torch.cuda.memory._record_memory_history()
    kept = taken(5 * MIB)
    return torch.cuda.memory._allocation_traceback(12345), kept.numel()


@probe()
def most_entries():
    torch.cuda.memory._record_memory_history(max_entries=7)
    for _ in range(20):
        two_tensors()
    found = entries()
    times = [entry["time_us"] for entry in found]
    check(times == sorted(times), "the ring of entries is not in the order of its times")
    return [[entry["action"], entry["size"]] for entry in found]


@probe()
def cleared():
    torch.cuda.memory._record_memory_history()
    two_tensors()
    before = len(requests())
    torch.cuda.memory._record_memory_history(clear_history=True)
    after = len(requests())
    two_tensors()
    return before, after, len(requests())


@probe()
def not_cleared():
    torch.cuda.memory._record_memory_history()
    two_tensors()
    torch.cuda.memory._record_memory_history()
    two_tensors()
    return len(requests())


@probe()
def switched_off():
    torch.cuda.memory._record_memory_history()
    two_tensors()
    torch.cuda.memory._record_memory_history(None)
    two_tensors()
    return len(requests())


@probe()
def skipped_actions():
    found = {}
    for skipped in ("alloc", "free_requested", "free_completed"):
        torch.cuda.memory._record_memory_history(skip_actions=[skipped], clear_history=True)
        two_tensors()
        found[skipped] = requests()
        torch.cuda.memory._record_memory_history(None)
    torch.cuda.memory._record_memory_history(skip_actions=["segment_alloc", "segment_free"], clear_history=True)
    kept = churn()
    del kept
    torch.cuda.empty_cache()
    found["segments"] = sorted({entry["action"] for entry in entries()} - {"segment_map", "segment_unmap"})
    return found


@probe()
def annotations():
    torch.cuda.memory._record_memory_history(global_record_annotations=True)
    with torch.profiler.record_function("the name of a region"):
        two_tensors()
    names = [note.get("name") for note in torch.cuda.memory._snapshot()["external_annotations"]]
    return "the name of a region" in names


@probe()
def metadata():
    torch.cuda.memory._record_memory_history()
    torch.cuda.memory._set_memory_metadata("a word of the user")
    kept = taken(5 * MIB)
    said = torch.cuda.memory._get_memory_metadata()
    found = [entry.get("user_metadata") for entry in entries() if entry["action"] == "alloc"]
    torch.cuda.memory._set_memory_metadata("")
    return said, found, kept.numel()


@probe()
def of_an_error():
    torch.cuda.memory._record_memory_history()
    kept = taken(10 * GIB)
    with contextlib.suppress(torch.OutOfMemoryError):
        taken(75 * GIB)
    found = [entry for entry in entries() if entry["action"] == "oom"]
    return [[entry["size"], bool(entry.get("frames")), entry["device_free"]] for entry in found], kept.numel()


@probe()
def of_private_pools():
    """Entries of graphs and memory pools are in the same history, in the order of their times."""
    torch.cuda.memory._record_memory_history()
    pool = torch.cuda.MemPool()
    kept = [taken(30 * MIB)]
    with torch.cuda.use_mem_pool(pool):
        kept.append(taken(40 * MIB))
    kept.append(taken(50 * MIB))
    times = [entry["time_us"] for entry in entries()]
    check(times == sorted(times), "the entries of the two allocators are not in one order")
    sizes = [entry["size"] for entry in entries() if entry["action"] == "alloc"]
    inside = [tuple(entry["pool_id"]) == tuple(pool.id) for entry in entries() if entry["action"] == "alloc"]
    return sizes, inside, len(kept)


@probe()
def of_record_stream():
    torch.cuda.memory._record_memory_history()
    side = torch.cuda.Stream()
    tensor = taken(30 * MIB)
    tensor.record_stream(side)
    del tensor
    other = taken(5 * MIB)
    return requests(), other.numel()


@probe()
def of_old_arguments():
    torch.cuda.memory._record_memory_history(True)
    two_tensors()
    return requests()


@probe()
def of_a_training_step():
    """The requests of a step are the same for every allocator."""
    torch.cuda.memory._record_memory_history()
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.empty(64, 512, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    gc.collect()
    found = [size for action, size in requests() if action == "alloc"]
    return len(found), sum(found), len(segments_of(0)) > 0, sys.version_info[0]
