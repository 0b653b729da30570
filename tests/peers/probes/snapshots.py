"""Probes of `memory_snapshot`, `_snapshot` and `_dump_snapshot`."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch
from inside.books import blocks_of, check_inside, segments_of
from inside.probe import check, probe
from inside.tensors import MIB, churn, taken


def shape(value: object) -> object:
    """The names and types in a value, without its figures."""
    if isinstance(value, dict):
        return {str(name): shape(part) for name, part in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [shape(value[0])] if value else []
    return type(value).__name__


@probe()
def form():
    kept = taken(MIB)
    found = torch.cuda.memory_snapshot()
    return shape(found), len(found), kept.numel()


@probe()
def contains_every_tensor():
    kept = churn()
    check_inside(kept)
    live = sorted(block["requested_size"] for block in blocks_of(0) if block["state"] == "active_allocated")
    check(
        live == sorted(tensor.numel() for tensor in kept), "the sizes of the live blocks are not those of the tensors"
    )
    return live


@probe()
def streams_of_blocks():
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        kept = taken(30 * MIB)
    other = taken(30 * MIB)
    check_inside([kept, other])
    found = {}
    for tensor, stream in ((kept, side.cuda_stream), (other, 0)):
        for segment in segments_of(0):
            if segment["address"] <= tensor.data_ptr() < segment["address"] + segment["total_size"]:
                found[str(bool(stream))] = segment["stream"] == stream
    return found


@probe()
def types_of_segments():
    kept = [taken(1000), taken(30 * MIB)]
    found = sorted({segment["segment_type"] for segment in segments_of(0)})
    pools = sorted({tuple(segment["segment_pool_id"]) for segment in segments_of(0)})
    return found, pools, len(kept)


@probe()
def whole_form():
    kept = taken(MIB)
    found = torch.cuda.memory._snapshot()
    return shape(found), len(found["device_traces"]), kept.numel()


@probe()
def settings_in_the_snapshot():
    kept = taken(MIB)
    return torch.cuda.memory._snapshot()["allocator_settings"], kept.numel()


@probe()
def of_one_pool():
    kept = taken(MIB)
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = taken(30 * MIB)
    whole = torch.cuda.memory_snapshot()
    only = torch.cuda.memory_snapshot(pool.id)
    without = torch.cuda.memory_snapshot(include_traces=False)
    others = [segment for segment in whole if tuple(segment["segment_pool_id"]) != tuple(pool.id)]
    check(len(only) + len(others) == len(whole) == len(without), "the pools do not add up")
    return [segment["total_size"] for segment in only], kept.numel(), inside.numel()


@probe()
def before_the_first_tensor():
    torch.cuda.init()
    return torch.cuda.memory_snapshot(), torch.cuda.memory._snapshot()["segments"]


@probe()
def written_to_a_file():
    torch.cuda.memory._record_memory_history()
    kept = churn(100, 10)
    torch.cuda.memory._dump_snapshot("dump.pickle")
    found = pickle.loads(Path("dump.pickle").read_bytes())
    check(len(found["segments"]) == len(segments_of(0)), "the file has other segments than memory_snapshot")
    return sorted(found), sum(entry["action"] == "alloc" for entry in found["device_traces"][0]), len(kept)


@probe()
def read_by_pytorchs_viewer():
    """The functions of `torch.cuda._memory_viz`, which draw a snapshot."""
    from torch.cuda import _memory_viz

    torch.cuda.memory._record_memory_history()
    kept = churn(100, 10)
    found = torch.cuda.memory._snapshot()
    texts = {
        "segsum": _memory_viz.segsum(found),
        "trace": _memory_viz.trace(found),
        "trace_plot": _memory_viz.trace_plot(found),
        "segment_plot": _memory_viz.segment_plot(found),
    }
    return {name: bool(text) for name, text in texts.items()}, len(kept)


@probe()
def read_by_memlake():
    """`memlake show` reads the file, finds no contradiction in it, and replays the requests."""
    import memlake

    torch.cuda.memory._record_memory_history()
    kept = churn(100, 10)
    torch.cuda.memory._dump_snapshot("dump.pickle")
    trace = memlake.Trace.load("dump.pickle")
    peak = torch.cuda.memory_stats()["requested_bytes.all.peak"]
    check(trace.peak_live >= peak, f"the live peak of the file is {trace.peak_live}, {peak} bytes were requested")
    return {"allocations": trace.num_allocations, "live_peak": trace.peak_live, "live": len(kept)}


@probe(environment={"FAKE_CUDA_EVENT_QUERIES": "50"})
def memory_that_waits_for_a_stream():
    """A freed block that another stream may still use is awaiting its free, and is not allocated any more."""
    side = torch.cuda.Stream()
    kept = taken(30 * MIB)
    kept.record_stream(side)
    before = torch.cuda.memory_allocated()
    del kept
    states = [block["state"] for block in blocks_of(0) if block["state"] != "inactive"]
    stats = torch.cuda.memory_stats()
    return states, before, torch.cuda.memory_allocated(), stats["active_bytes.all.current"]
