"""Probes of streams: `record_stream`, reuse across streams, late events, and streams that end."""

from __future__ import annotations

import ctypes
import itertools
import random

import torch
from inside.books import stat
from inside.probe import check, probe
from inside.tensors import GIB, MIB, taken

NEVER = {"FAKE_CUDA_EVENT_QUERIES": "2000000000"}
"""No event is complete unless the host waits for it."""
LATE = {"FAKE_CUDA_EVENT_QUERIES": "50"}
"""An event answers 50 times that it is not complete."""


def overlap(first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Says whether two ranges (address, size) have a byte in common."""
    return first[0] < second[0] + second[1] and second[0] < first[0] + first[1]


@probe()
def other_streams_do_not_reuse():
    first = taken(30 * MIB)
    at = first.data_ptr()
    del first
    with torch.cuda.stream(torch.cuda.Stream()):
        second = taken(30 * MIB)
    return overlap((at, 30 * MIB), (second.data_ptr(), 30 * MIB))


@probe()
def the_same_stream_reuses():
    first = taken(30 * MIB)
    held = torch.cuda.memory_reserved()
    del first
    second = taken(30 * MIB)
    return torch.cuda.memory_reserved() == held, second.numel()


@probe(environment=NEVER)
def recorded_memory_is_not_reused_before_its_event():
    side = torch.cuda.Stream()
    tensor = taken(30 * MIB)
    tensor.record_stream(side)
    at = tensor.data_ptr()
    del tensor
    kept = [taken(30 * MIB) for _ in range(200)]
    hits = [overlap((at, 30 * MIB), (other.data_ptr(), 30 * MIB)) for other in kept]
    check(not any(hits), "memory was reused before its event was complete")
    return torch.cuda.memory_allocated(), stat("active_bytes.all.current") - torch.cuda.memory_allocated()


@probe(environment=LATE)
def recorded_memory_comes_back_after_its_event():
    side = torch.cuda.Stream()
    tensor = taken(30 * MIB)
    tensor.record_stream(side)
    del tensor
    before = stat("active_bytes.all.current")
    for _ in range(200):
        taken(5 * MIB)
    return before, stat("active_bytes.all.current")


@probe(environment=NEVER)
def recorded_on_its_own_stream():
    """Recording the stream of the tensor itself delays nothing."""
    tensor = taken(30 * MIB)
    tensor.record_stream(torch.cuda.current_stream())
    del tensor
    return stat("active_bytes.all.current"), stat("allocated_bytes.all.current")


@probe(environment=NEVER)
def a_random_program_with_events_that_are_never_complete():
    """A referee keeps every range that another stream may still use; no new tensor may lie in one."""
    chance = random.Random(3)
    streams = [torch.cuda.default_stream(), *(torch.cuda.Stream() for _ in range(4))]
    live: list[tuple[torch.Tensor, bool]] = []
    hot: list[tuple[int, int]] = []
    checked = 0
    for _ in range(1500):
        stream = chance.choice(streams)
        size = int(2 ** chance.uniform(8, 24))
        with torch.cuda.stream(stream):
            tensor = taken(size)
        for other in hot:
            check(not overlap(other, (tensor.data_ptr(), size)), "memory was reused before its event was complete")
        checked += len(hot)
        is_shared = chance.random() < 0.3
        if is_shared:
            for other_stream in chance.sample(streams, 2):
                if other_stream != stream:
                    tensor.record_stream(other_stream)
        live.append((tensor, is_shared))
        del tensor
        if len(live) > 25:
            gone, was_shared = live.pop(chance.randrange(len(live)))
            if was_shared:
                hot.append((gone.data_ptr(), gone.numel()))
            del gone
    return len(live), len(hot), checked


@probe(environment=LATE)
def a_random_program_with_late_events():
    chance = random.Random(4)
    streams = [torch.cuda.Stream() for _ in range(4)]
    live: list[torch.Tensor] = []
    for _ in range(1500):
        with torch.cuda.stream(chance.choice(streams)):
            live.append(taken(int(2 ** chance.uniform(8, 24))))
        live[-1].record_stream(chance.choice(streams))
        if len(live) > 25:
            del live[chance.randrange(len(live))]
    count, requested = len(live), sum(tensor.numel() for tensor in live)
    check(torch.cuda.memory_allocated() >= requested, "less is allocated than is live")
    live.clear()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return count, requested, torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


@probe(environment={**NEVER, "FAKE_CUDA_BYTES": "8g"})
def a_full_device_waits_for_events():
    """Memory that waits for an event is used when nothing else is left; the host waits for the event then."""
    side = torch.cuda.Stream()
    tensor = taken(6 * GIB)
    tensor.record_stream(side)
    del tensor
    again = taken(6 * GIB)
    return again.numel(), stat("num_ooms"), torch.cuda.memory_allocated()


@probe(environment={**NEVER, "FAKE_CUDA_BYTES": "8g"})
def empty_cache_waits_for_events():
    side = torch.cuda.Stream()
    tensor = taken(6 * GIB)
    tensor.record_stream(side)
    del tensor
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved(), stat("active_bytes.all.current")


@probe()
def two_hundred_streams():
    streams = [torch.cuda.Stream(priority=-(number % 3)) for number in range(200)]
    for number, stream in enumerate(streams):
        with torch.cuda.stream(stream):
            taken(1000 * number + 1)
    return stat("allocation.all.allocated"), torch.cuda.memory_allocated()


@probe()
def two_hundred_streams_of_the_driver():
    """Streams that the program makes itself: PyTorch's own are only 32 for each priority."""
    runtime = ctypes.CDLL("libcudart.so.13")
    torch.cuda.init()
    kept = []
    for number in range(200):
        handle = ctypes.c_void_p()
        check(runtime.cudaStreamCreateWithFlags(ctypes.byref(handle), 1) == 0, "no stream")
        with torch.cuda.stream(torch.cuda.ExternalStream(handle.value)):
            kept.append(taken(1000 * number + 1))
    addresses = sorted((tensor.data_ptr(), tensor.numel()) for tensor in kept)
    for (at, size), (following, _) in itertools.pairwise(addresses):
        check(at + size <= following, "two live tensors overlap")
    return stat("allocation.all.current"), sum(tensor.numel() for tensor in kept)


@probe()
def free_after_the_stream_is_destroyed():
    runtime = ctypes.CDLL("libcudart.so.13")
    torch.cuda.init()
    handle = ctypes.c_void_p()
    runtime.cudaStreamCreate(ctypes.byref(handle))
    stream = torch.cuda.ExternalStream(handle.value)
    with torch.cuda.stream(stream):
        kept = [taken(30 * MIB), taken(30 * MIB)]
    runtime.cudaStreamDestroy(handle)
    del kept
    torch.cuda.empty_cache()
    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


@probe()
def default_stream_of_the_thread():
    """Its handle is 2."""
    with torch.cuda.stream(torch.cuda.ExternalStream(2)):
        kept = taken(30 * MIB)
        is_there = kept.data_ptr() != 0
        del kept
    return is_there, torch.cuda.memory_allocated()


@probe()
def legacy_default_stream():
    """Its handle is 1."""
    with torch.cuda.stream(torch.cuda.ExternalStream(1)):
        kept = taken(30 * MIB)
        is_there = kept.data_ptr() != 0
        del kept
    return is_there, torch.cuda.memory_allocated()


@probe()
def events_and_waits():
    side = torch.cuda.Stream()
    tensor = taken(30 * MIB)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        other = tensor.clone()
    torch.cuda.current_stream().wait_stream(side)
    tensor.record_stream(side)
    size = tensor.numel() + other.numel()
    del tensor, other
    torch.cuda.synchronize()
    return size, torch.cuda.memory_allocated()


@probe()
def raw_allocations():
    at = torch.cuda.caching_allocator_alloc(5 * MIB)
    inside = torch.cuda.memory_allocated()
    torch.cuda.caching_allocator_delete(at)
    side = torch.cuda.Stream()
    other = torch.cuda.caching_allocator_alloc(7 * MIB, stream=side)
    on_side = torch.cuda.memory_allocated()
    torch.cuda.caching_allocator_delete(other)
    return at != 0, inside, on_side, torch.cuda.memory_allocated()


@probe()
def raw_free_of_unknown_memory():
    taken(1)
    try:
        torch.cuda.caching_allocator_delete(0x1234)
    except Exception as error:
        return type(error).__name__
    return "no error"


@probe(books=False)
def without_the_cache():
    torch.cuda.caching_allocator_enable(False)
    is_enabled = torch._C._cuda_cudaCachingAllocator_is_enabled()
    kept = [taken(64 * MIB), taken(1000)]
    allocated = torch.cuda.memory_allocated()
    del kept
    left = torch.cuda.memory_allocated()
    torch.cuda.caching_allocator_enable(True)
    again = taken(5 * MIB)
    return is_enabled, allocated, left, torch.cuda.memory_allocated(), again.numel()


@probe(books=False)
def without_the_cache_in_a_block():
    kept = taken(5 * MIB)
    with torch.cuda.memory.caching_allocator_disabled():
        other = taken(64 * MIB)
        del other
    return torch.cuda.memory_allocated(), kept.numel()
