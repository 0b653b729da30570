"""Probes of `torch.cuda.memory_stats` and its relatives."""

from __future__ import annotations

import random

import torch
from inside.books import FAMILIES, check_inside, segments_of, stat
from inside.probe import check, probe
from inside.tensors import MIB, SIZES, churn, random_sizes, taken


@probe()
def allocated():
    kept = [taken(8 * MIB), taken(1000)]
    return torch.cuda.memory_allocated(), len(kept)


@probe()
def reserved():
    kept = [taken(8 * MIB), taken(1000)]
    return {"reserved": torch.cuda.memory_reserved(), "peak": torch.cuda.max_memory_reserved(), "live": len(kept)}


@probe()
def allocated_of_each_size():
    found = {}
    for size in SIZES:
        kept = taken(size)
        found[str(size)] = [stat("allocated_bytes.all.current"), stat("requested_bytes.all.current")]
        del kept
        torch.cuda.empty_cache()
    return found


@probe()
def pools_of_each_size():
    found = {}
    for size in SIZES:
        kept = taken(size)
        found[str(size)] = [stat("allocation.small_pool.current"), stat("allocation.large_pool.current")]
        del kept
    return found


@probe()
def names_of_statistics():
    kept = taken(MIB)
    return sorted(torch.cuda.memory_stats()), kept.numel()


@probe()
def names_as_nested_dict():
    taken(MIB)
    nested = torch.cuda.memory_stats_as_nested_dict()
    return {name: sorted(value) if isinstance(value, dict) else type(value).__name__ for name, value in nested.items()}


@probe(books=False)
def before_cuda_starts():
    return {
        "stats": dict(torch.cuda.memory_stats()),
        "allocated": torch.cuda.memory_allocated(),
        "reserved": torch.cuda.memory_reserved(),
        "snapshot": torch.cuda.memory_snapshot(),
        "starts": torch.cuda.is_initialized(),
    }


@probe()
def account_by_hand():
    """Every figure about requests is known from the program alone."""
    chance = random.Random(7)
    kept: list[torch.Tensor] = []
    now = peak = total = freed = most = 0
    for size in random_sizes(800, 7):
        kept.append(taken(size))
        now, total = now + size, total + size
        peak, most = max(peak, now), max(most, len(kept))
        if len(kept) > 40:
            gone = kept.pop(chance.randrange(len(kept)))
            now, freed = now - gone.numel(), freed + gone.numel()
            del gone
    by_hand = {
        "requested_bytes.all.current": now,
        "requested_bytes.all.peak": peak,
        "requested_bytes.all.allocated": total,
        "requested_bytes.all.freed": freed,
        "allocation.all.current": len(kept),
        "allocation.all.peak": most,
        "allocation.all.allocated": 800,
        "allocation.all.freed": 800 - len(kept),
        "active.all.current": len(kept),
        "active.all.peak": most,
        "num_ooms": 0,
        "num_alloc_retries": 0,
        "num_sync_all_streams": 0,
    }
    for name, value in by_hand.items():
        check(stat(name) == value, f"{name} is {stat(name)}, the account says {value}")
    for family in ("allocated_bytes", "active_bytes"):
        check(stat(f"{family}.all.current") >= now, f"{family} is less than was requested")
        check(stat(f"{family}.all.peak") >= peak, f"the peak of {family} is less than was requested")
    return {
        "by_hand": by_hand,
        "allocated": stat("allocated_bytes.all.current"),
        "allocated_peak": stat("allocated_bytes.all.peak"),
    }


@probe()
def counts_of_segments_and_device_calls():
    kept = churn()
    check(stat("segment.all.current") == len(segments_of(0)), "segments: the statistics and the snapshot differ")
    made, gone = stat("num_device_alloc"), stat("num_device_free")
    check(made > gone >= 0, f"{made} device allocations and {gone} frees")
    count = len(kept)
    del kept
    torch.cuda.empty_cache()
    check(stat("segment.all.current") == 0, f"{stat('segment.all.current')} segments after empty_cache")
    check(stat("num_device_free") > gone, "empty_cache counted no device free")
    check(stat("reserved_bytes.all.current") == 0, "bytes are held after empty_cache")
    return count


@probe()
def device_calls_cancel_out():
    del_me = churn()
    del del_me
    torch.cuda.empty_cache()
    return stat("num_device_alloc") == stat("num_device_free")


@probe()
def inactive_splits():
    """Free blocks beside live ones in their segment, by the snapshot and by the statistics."""
    kept = churn()
    free, count = 0, 0
    for segment in segments_of(0):
        pieces = [block["size"] for block in segment["blocks"] if block["state"] == "inactive"]
        if len(segment["blocks"]) > 1:
            free, count = free + sum(pieces), count + len(pieces)
    said = stat("inactive_split_bytes.all.current"), stat("inactive_split.all.current")
    check(said == (free, count), f"inactive splits: statistics {said}, snapshot {(free, count)}")
    return len(kept)


@probe()
def reset_of_peaks():
    kept = taken(8 * MIB)
    other = taken(64 * MIB)
    before = torch.cuda.max_memory_allocated()
    held = torch.cuda.memory_reserved()
    del other
    torch.cuda.reset_peak_memory_stats()
    after = torch.cuda.max_memory_allocated()
    for family in FAMILIES:
        for pool in ("all", "small_pool", "large_pool"):
            now, peak = stat(f"{family}.{pool}.current"), stat(f"{family}.{pool}.peak")
            check(now == peak, f"after the reset {family}.{pool} is {now}, its peak {peak}")
    check(torch.cuda.max_memory_reserved() == held, "cached memory left the pool")
    other = taken(16 * MIB)
    return before, after, torch.cuda.max_memory_allocated(), kept.numel() + other.numel()


@probe()
def reset_of_accumulated_figures():
    kept = churn(50, 10)
    torch.cuda.reset_accumulated_memory_stats()
    stats = torch.cuda.memory_stats()
    totals = {name: stats[f"{name}.all.allocated"] + stats[f"{name}.all.freed"] for name in FAMILIES}
    counts = {name: stats[name] for name in ("num_ooms", "num_alloc_retries", "num_device_alloc", "num_device_free")}
    current = stats["allocation.all.current"]
    del kept
    return totals, counts, current, stat("allocation.all.freed"), stat("allocation.all.current")


@probe()
def old_names():
    kept = taken(8 * MIB)
    other = taken(8 * MIB)
    del other
    torch.cuda.reset_max_memory_allocated()
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.reset_max_memory_cached()
    check(torch.cuda.memory_cached() == torch.cuda.memory_reserved(), "memory_cached is not memory_reserved")
    return peak, kept.numel()


@probe()
def summary():
    kept = taken(100 * MIB)
    text = torch.cuda.memory_summary()
    short = torch.cuda.memory_summary(abbreviated=True)
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.count("|") > 3]
    check("102400 KiB" in text, "the summary does not contain the allocated bytes")
    return rows, len(text.splitlines()), len(short.splitlines()), kept.numel()


@probe()
def mem_get_info():
    free, total = torch.cuda.mem_get_info()
    kept = taken(100 * MIB)
    after, _ = torch.cuda.mem_get_info()
    check(free - after == torch.cuda.memory_reserved(), "the device gave another amount than is reserved")
    return {"total": total, "free_before": free, "taken": free - after, "live": kept.numel()}


@probe()
def empty_cache():
    kept = churn()
    live, held = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    check(torch.cuda.memory_allocated() == live, "empty_cache changed what is allocated")
    check(torch.cuda.memory_reserved() <= held, "empty_cache took memory")
    count = len(kept)
    del kept
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return count, torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), total - free


@probe()
def zero_bytes():
    nothing = torch.empty(0, device="cuda")
    return nothing.data_ptr(), torch.cuda.memory_allocated(), stat("allocation.all.allocated")


@probe()
def pinned_memory():
    pinned = torch.empty(1000).pin_memory()
    stats = torch.cuda.host_memory_stats()
    torch.cuda.reset_peak_host_memory_stats()
    torch.cuda.reset_accumulated_host_memory_stats()
    return pinned.is_pinned(), sorted(stats)


@probe()
def name_of_the_allocator():
    kept = taken(1)
    return torch.cuda.get_allocator_backend(), kept.numel()


@probe()
def storage_grows_and_shrinks():
    tensor = taken(16 * MIB)
    found = []
    for size in (0, 64 * MIB, 256 * MIB, 1, 0):
        tensor.untyped_storage().resize_(size)
        found.append(stat("requested_bytes.all.current"))
    return found


@probe()
def settings_at_run_time():
    torch.cuda.memory._set_allocator_settings("garbage_collection_threshold:0.8,max_split_size_mb:128")
    kept = churn(100, 10)
    return len(kept), stat("max_split_size")


@probe()
def expandable_segments_at_run_time():
    kept = churn(100, 10)
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    other = churn(100, 10, seed=5)
    check_inside(kept + other)
    return stat("allocation.all.current"), stat("requested_bytes.all.current")


@probe()
def processes_of_the_device():
    kept = taken(MIB)
    return torch.cuda.list_gpu_processes().splitlines()[0][:40], kept.numel()


@probe()
def sizes_that_are_rounded_up():
    """With `roundup_power2_divisions` PyTorch rounds what it allocates; the request stays the same."""
    torch.cuda.memory._set_allocator_settings("roundup_power2_divisions:4")
    kept = taken(1200 * 1024)
    return {
        "requested": stat("requested_bytes.all.current"),
        "allocated": stat("allocated_bytes.all.current"),
        "live": kept.numel(),
    }
