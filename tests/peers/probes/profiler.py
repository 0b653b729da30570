"""Probes of the profiler with memory."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import torch
from inside.probe import probe
from inside.tensors import MIB, taken
from torch.profiler import ProfilerActivity, profile


@probe()
def bytes_of_operators():
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True) as found:
        tensor = taken(64 * MIB)
        other = tensor + 1
        del tensor, other
    return sorted(
        [event.key, event.self_device_memory_usage] for event in found.key_averages() if event.self_device_memory_usage
    )


@probe()
def totals_in_the_trace():
    """Each memory event of a trace has what is allocated and reserved at that moment."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        tensor = taken(64 * MIB)
        held = torch.cuda.memory_reserved()
        del tensor
    found.export_chrome_trace("trace.json")
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    ours = [event["args"] for event in events if event.get("name") == "[memory]" and event["args"]["Device Type"] == 1]
    return {
        "bytes": [event["Bytes"] for event in ours],
        "allocated": [event["Total Allocated"] for event in ours],
        "reserved_is_true": [event["Total Reserved"] == held for event in ours],
    }


@probe()
def timeline():
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True) as found:
        model = torch.nn.Linear(256, 256, device="cuda")
        model(torch.zeros(8, 256, device="cuda")).sum().backward()
    found.export_memory_timeline("timeline.json", device="cuda:0")
    times, sizes = json.loads(Path("timeline.json").read_text())
    return len(times) == len(sizes), max(max(row) for row in sizes) if sizes else 0


@probe()
def out_of_memory_event():
    recorded = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
    with recorded as found, contextlib.suppress(torch.OutOfMemoryError):
        taken(200 << 30)
    found.export_chrome_trace("trace.json")
    return "[OutOfMemory]" in Path("trace.json").read_text()
