"""The books of an allocator: what its statistics, its snapshot and its device must agree on."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from inside import mode
from inside.probe import UntrueError, check

FAMILIES = (
    "allocation",
    "segment",
    "active",
    "inactive_split",
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
)


def stat(name: str, device: int = 0) -> int:
    """One entry of `memory_stats`."""
    return torch.cuda.memory_stats(device)[name]


def segments_of(device: int) -> list[dict[str, Any]]:
    """The segments of one device."""
    return [segment for segment in torch.cuda.memory_snapshot() if segment["device"] == device]


def blocks_of(device: int) -> list[dict[str, Any]]:
    """All blocks of one device."""
    return [block for segment in segments_of(device) for block in segment["blocks"]]


def check_families(device: int) -> None:
    """The two pools add up to all, and what was allocated less what was freed is current."""
    stats = torch.cuda.memory_stats(device)
    for family in FAMILIES:
        for figure in ("current", "allocated", "freed"):
            parts = stats[f"{family}.small_pool.{figure}"] + stats[f"{family}.large_pool.{figure}"]
            whole = stats[f"{family}.all.{figure}"]
            check(parts == whole, f"{family}.{figure}: the two pools have {parts}, all has {whole}")
        for pool in ("all", "small_pool", "large_pool"):
            current, peak, allocated, freed = (
                stats[f"{family}.{pool}.{figure}"] for figure in ("current", "peak", "allocated", "freed")
            )
            check(0 <= current <= peak, f"{family}.{pool}: current {current}, peak {peak}")
            check(min(allocated, freed) >= 0, f"{family}.{pool}: allocated {allocated}, freed {freed}")


def check_snapshot(device: int) -> None:
    """The snapshot adds up to the statistics, and its blocks cover their segments without a hole."""
    stats = torch.cuda.memory_stats(device)
    segments = segments_of(device)
    for segment in segments:
        at = segment["address"]
        for block in segment["blocks"]:
            check(block.get("address", at) == at, f"a block is at {block.get('address'):#x}, expected at {at:#x}")
            check(block["size"] > 0, "a block has no bytes")
            at += block["size"]
        check(at == segment["address"] + segment["total_size"], "the blocks of a segment are not its size")
        active = sum(block["size"] for block in segment["blocks"] if block["state"] != "inactive")
        live = sum(block["size"] for block in segment["blocks"] if block["state"] == "active_allocated")
        check(segment["active_size"] == active, f"active_size {segment['active_size']}, blocks {active}")
        check(segment["allocated_size"] == live, f"allocated_size {segment['allocated_size']}, blocks {live}")
    ranges = sorted((segment["address"], segment["address"] + segment["total_size"]) for segment in segments)
    for (_, end), (begin, _) in itertools.pairwise(ranges):
        check(end <= begin, "two segments overlap")
    sums = {
        "reserved_bytes": sum(segment["total_size"] for segment in segments),
        "allocated_bytes": sum(segment["allocated_size"] for segment in segments),
        "active_bytes": sum(segment["active_size"] for segment in segments),
        "requested_bytes": sum(
            block["requested_size"]
            for segment in segments
            for block in segment["blocks"]
            if block["state"] != "inactive"
        ),
        "active": sum(block["state"] != "inactive" for segment in segments for block in segment["blocks"]),
    }
    for family, total in sums.items():
        said = stats[f"{family}.all.current"]
        check(said == total, f"{family}: the statistics say {said}, the snapshot {total}")


def check_device(device: int) -> None:
    """What the device has given away is what the allocator says that it holds."""
    free, total = torch.cuda.mem_get_info(device)
    held = torch.cuda.memory_reserved(device)
    check(total - free == held, f"the device has given away {total - free} bytes, memory_reserved is {held}")


def check_books() -> None:
    """Checks the books of every device that is in use; names everything that is not true."""
    if not torch.cuda.is_initialized():
        return
    torch.cuda.synchronize()
    parts = [check_families, check_device] + ([check_snapshot] if mode.has_snapshots() else [])
    sentences = []
    for device in range(torch.cuda.device_count()):
        for part in parts:
            try:
                part(device)
            except UntrueError as error:
                sentences.append(f"device {device}: {error}")
    check(not sentences, "; ".join(sentences))


def check_inside(tensors: list[torch.Tensor]) -> None:
    """Every tensor lies inside one live block of the snapshot."""
    for tensor in tensors:
        first = tensor.untyped_storage().data_ptr()
        size = tensor.untyped_storage().nbytes()
        found = False
        for segment in segments_of(tensor.device.index):
            at = segment["address"]
            for block in segment["blocks"]:
                inside = at <= first and first + size <= at + block["size"]
                found = found or (inside and block["state"] == "active_allocated")
                at += block["size"]
        check(found, f"no live block of the snapshot contains the tensor of {size} bytes at {first:#x}")
