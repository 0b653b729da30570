"""Probes of a device that is full: errors, observers, retries and fractions."""

from __future__ import annotations

import re
from typing import Any

import torch
from inside import mode
from inside.books import stat
from inside.probe import check, probe
from inside.tensors import GIB, MIB, taken

WORDS = re.compile(r"^CUDA out of memory\. Tried to allocate [\d.]+ [KMG]iB\. GPU \d has a total capacity of ")


def refusal(size: int) -> dict[str, Any]:
    """The error for a request of so many bytes."""
    try:
        taken(size)
    except Exception as error:
        first = str(error).split(" GPU ")[0]
        check(isinstance(error, torch.OutOfMemoryError), f"the error is {type(error).__name__}: {error}")
        check(bool(WORDS.match(str(error))), f"the text does not begin with PyTorch's words: {error}")
        return {"type": type(error).__name__, "begins": first}
    return {"type": "none"}


@probe()
def empty():
    return refusal(200 * GIB)


@probe()
def text():
    try:
        taken(200 * GIB)
    except torch.OutOfMemoryError as error:
        check(mode.uses_memlake() == ("memlake" in str(error)), f"the explanation is not memlake's: {error}")
        return str(error)


@probe()
def same_type_under_all_names():
    try:
        taken(200 * GIB)
    except torch.cuda.OutOfMemoryError as error:
        return isinstance(error, RuntimeError), isinstance(error, torch.OutOfMemoryError)


@probe()
def in_operations():
    found = {}
    half = taken(50 * GIB)
    square = torch.empty(1 << 14, 1 << 17, dtype=torch.bfloat16, device="cuda")
    for name, act in {
        "zeros": lambda: torch.zeros(200 * GIB, dtype=torch.uint8, device="cuda"),
        "add": lambda: half + half,
        "clone": half.clone,
        "matmul": lambda: square.t() @ square,
        "resize": lambda: taken(1).untyped_storage().resize_(100 * GIB),
        "from_host": lambda: torch.empty(1, dtype=torch.uint8).expand(100 * GIB).to("cuda"),
    }.items():
        try:
            act()
            found[name] = "no error"
        except Exception as error:
            found[name] = type(error).__name__
    return found


@probe()
def goes_on_after_an_error():
    for _ in range(3):
        try:
            kept = [taken(30 * GIB) for _ in range(4)]
        except torch.OutOfMemoryError:
            kept = []
    return torch.cuda.memory_allocated(), stat("num_ooms"), len(kept), taken(70 * GIB).numel()


@probe()
def counts():
    kept = taken(50 * GIB)
    for _ in range(5):
        refusal(40 * GIB)
    return stat("num_ooms"), stat("num_alloc_retries"), kept.numel()


@probe()
def peaks_do_not_count_refusals():
    kept = taken(50 * GIB)
    refusal(40 * GIB)
    return torch.cuda.max_memory_allocated(), stat("allocation.all.allocated"), kept.numel()


@probe()
def sum_of_cached_blocks():
    """Cached blocks that are too small are given back for one large request."""
    kept = [taken(30 * GIB) for _ in range(2)]
    del kept
    large = taken(70 * GIB)
    return large.numel(), stat("num_ooms"), torch.cuda.memory_allocated()


@probe()
def retries_are_counted():
    kept = [taken(30 * GIB) for _ in range(2)]
    del kept
    large = taken(70 * GIB)
    return {"retries": stat("num_alloc_retries"), "live": large.numel()}


@probe()
def observer():
    seen: list[Any] = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *given: seen.append(given))
    kept = taken(50 * GIB)
    refusal(40 * GIB)
    return seen, kept.numel()


@probe()
def observer_of_every_error():
    seen: list[Any] = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *given: seen.append(given))
    torch._C._cuda_attach_out_of_memory_observer(lambda *given: seen.append("second"))
    for _ in range(3):
        refusal(100 * GIB)
    return len(seen)


@probe()
def observer_is_not_called_for_retries():
    seen: list[Any] = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *given: seen.append(given))
    kept = [taken(30 * GIB) for _ in range(2)]
    del kept
    return len(seen), taken(70 * GIB).numel()


@probe()
def observer_takes_a_snapshot():
    """The usual observer: it writes a snapshot while the request fails."""
    seen: list[Any] = []

    def observe(*_: Any) -> None:
        found = torch.cuda.memory._snapshot()
        seen.append([entry["action"] for entry in found["device_traces"][0]][-1])

    torch.cuda.memory._record_memory_history()
    torch._C._cuda_attach_out_of_memory_observer(observe)
    kept = taken(50 * GIB)
    refusal(40 * GIB)
    return seen, kept.numel()


@probe()
def fraction():
    before = torch.cuda.get_per_process_memory_fraction()
    torch.cuda.set_per_process_memory_fraction(0.5)
    after = torch.cuda.get_per_process_memory_fraction()
    small = taken(30 * GIB)
    found = refusal(20 * GIB)
    torch.cuda.set_per_process_memory_fraction(1.0)
    large = taken(40 * GIB)
    return before, after, found, small.numel() + large.numel()


@probe()
def fraction_below_what_is_held():
    kept = taken(30 * GIB)
    torch.cuda.set_per_process_memory_fraction(0.1)
    found = refusal(1 * GIB)
    del kept
    again = taken(5 * GIB)
    return found, again.numel(), torch.cuda.memory_allocated()


@probe()
def fraction_counts_the_cache():
    """The allowed part is that of held memory: the cache makes room for a request."""
    torch.cuda.set_per_process_memory_fraction(0.5)
    kept = [taken(15 * GIB), taken(15 * GIB)]
    del kept
    large = taken(35 * GIB)
    return large.numel(), torch.cuda.memory_reserved() <= 40 * GIB, stat("num_ooms")


@probe()
def fraction_with_a_private_pool():
    """The allowed part is that of both allocators together."""
    torch.cuda.set_per_process_memory_fraction(0.5)
    kept = taken(30 * GIB)
    pool = torch.cuda.MemPool()
    try:
        with torch.cuda.use_mem_pool(pool):
            inside = taken(20 * GIB)
        found = "no error"
    except torch.OutOfMemoryError:
        inside, found = None, "OutOfMemoryError"
    return found, kept.numel(), inside is None


@probe()
def wrong_fractions():
    found = []
    for given in (-0.1, 1.1, "half"):
        try:
            torch.cuda.set_per_process_memory_fraction(given)
            found.append("no error")
        except Exception as error:
            found.append([type(error).__name__, str(error)])
    return found


@probe()
def impossible_sizes():
    found = []
    for size in (1 << 50, 1 << 62, (1 << 63) - 1):
        try:
            taken(size)
            found.append("no error")
        except Exception as error:
            found.append([type(error).__name__, str(error).split(".")[0]])
    return found


@probe()
def in_a_backward_pass():
    model = torch.nn.Linear(1 << 15, 1 << 15, bias=False, device="cuda")
    inputs = torch.empty(1 << 17, 1 << 15, device="cuda", requires_grad=True)
    kept = taken(30 * GIB)
    try:
        model(inputs).sum().backward()
        found = "no error"
    except torch.OutOfMemoryError:
        found = "OutOfMemoryError"
    return found, kept.numel()


@probe()
def empty_cache_in_the_handler():
    """The usual handler: it frees, empties the cache, and tries a smaller batch."""
    size, sizes = 200 * GIB, []
    while True:
        try:
            kept = [taken(size), taken(MIB)]
            break
        except torch.OutOfMemoryError:
            sizes.append(size)
            size //= 2
            torch.cuda.empty_cache()
    return sizes, kept[0].numel()


@probe(environment={"FAKE_CUDA_BYTES": "4g"})
def a_small_device():
    kept = [taken(MIB * 900) for _ in range(4)]
    found = refusal(600 * MIB)
    return found, len(kept)
