"""The capacity of the device of a replay: a size, the name of a GPU, or known from the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from memlake.errors import ConfigError
from memlake.replaying.gpus import GPUS, Gpu, close_gpus, find_gpu
from memlake.units import Size, format_bytes, parse_bytes

if TYPE_CHECKING:
    from memlake.trace import Recorded, Trace

__all__ = ["GRID", "LARGEST_DEVICE", "Capacity", "capacity_of", "known_capacity", "limit_of", "whole_device"]

GRID = 2 * 2**20
"""Capacities are multiples of this: the granularity of CUDA devices, and the smallest emulated device."""
LARGEST_DEVICE = 16 * 2**40
"""The largest device that the emulator can make."""


class Capacity(NamedTuple):
    """The memory of a device, and where the number comes from if the caller did not give it in bytes.

    Attributes:
        nbytes: the size in bytes.
        origin: a sentence about the source of the number; empty for a size that the caller gave.
    """

    nbytes: int
    origin: str = ""


def capacity_of(trace: Trace, capacity: Size | None, reserve: Size | None = None) -> Capacity:
    """Returns the given capacity, or without one the capacity that the trace gives.

    Args:
        trace: the trace that is asked if no capacity is given.
        capacity: a size, or the name of a GPU.
        reserve: what to subtract from the memory of a named GPU for the context. None: 512 MiB.

    Raises:
        ConfigError: if the capacity is neither a size nor a GPU or is out of range, if neither argument nor trace gives
            one, or if there is a reserve without a GPU.
    """
    if reserve is not None and find_gpu(capacity) is None:
        raise ConfigError(
            "reserve is subtracted from the memory of a GPU that is given by its name; hint: subtract it from the size"
        )
    if capacity is None:
        known = known_capacity(trace)
        if known is None:
            died = trace.oom.sentence if trace.oom is not None else "This trace does not tell."
            raise ConfigError(
                f"how much memory has the device? {died} At its peak {format_bytes(trace.peak_live)} are live; hint: "
                'say it with capacity (on the command line --capacity), for instance "80GiB"'
            )
        return Capacity(known, f"The file gives the size of the device: {format_bytes(known)}.")
    if gpu := find_gpu(capacity):
        usable = gpu.usable(reserve)
        less = gpu.nbytes - usable
        kept = f", less {format_bytes(less)} for the CUDA context." if less else "."
        return _in_range(usable, _origin(gpu) + kept)
    return _in_range(_size(capacity))


def refuse_below_largest(trace: Trace, capacity: int, name: str) -> None:
    """Refuses a device that has less memory than a single request of the trace: nothing can be shown of it.

    Args:
        trace: the trace.
        capacity: the memory of the device in bytes.
        name: the name of the trace in the message.

    Raises:
        ConfigError: if the device is that small.
    """
    largest = int(trace.bytes[trace.op == 0].max(initial=0))
    if largest > capacity:
        raise ConfigError(
            f"{name!r} asks for {format_bytes(largest)} at once, which a device of {format_bytes(capacity)} can never "
            f"have; hint: give a --capacity of more than {format_bytes(trace.peak_live)}, which are live at the peak"
        )


def whole_device(capacity: Size) -> Capacity:
    """Returns the memory of a whole device, that of the CUDA context included.

    Args:
        capacity: a size, or the name of a GPU.

    Raises:
        ConfigError: if the capacity is neither a size nor a GPU, or is out of range.
    """
    if gpu := find_gpu(capacity):
        return _in_range(gpu.nbytes, f"{_origin(gpu)}.")
    return _in_range(_size(capacity))


def _origin(gpu: Gpu) -> str:
    return f"{gpu.name} has {format_bytes(gpu.nbytes)} ({gpu.source})"


def _size(capacity: Size) -> int:
    try:
        return parse_bytes(capacity, what="capacity", round_down=True)
    except ConfigError as error:
        if not isinstance(capacity, str):
            raise
        close = close_gpus(capacity)
        if not close and not capacity.strip()[:1].isalpha():
            raise
        known_names = ", ".join(sorted(gpu.name for gpu in GPUS))
        meant = f"did you mean {' or '.join(close)}? " if close else ""
        raise ConfigError(f"{error}; it is no known GPU either: {meant}known are {known_names}") from None


def _in_range(nbytes: int, origin: str = "") -> Capacity:
    if not GRID <= nbytes <= LARGEST_DEVICE:
        raise ConfigError(
            f"capacity must be between 2 MiB and 16 TiB, got {format_bytes(nbytes)}; hint: give for instance 80GiB"
        )
    return Capacity(nbytes, origin)


def known_capacity(trace: Trace) -> int | None:
    """Returns the capacity from the metadata of a trace, or from a recorded failure; None if it has neither.

    When PyTorch runs out of memory, it records the free memory of the driver. The capacity is that memory plus the
    memory that PyTorch held. If the driver had enough, a limit of the process refused the request, and only the
    settings may tell it.
    """
    told = trace.metadata.get("capacity")
    if isinstance(told, int) and not isinstance(told, bool) and GRID <= told <= LARGEST_DEVICE:
        return told
    if trace.oom is None:
        return None if trace.recorded is None else _capacity_of_record(trace.recorded)
    policy = trace.settings.policy
    if trace.oom.is_limited and (policy is None or policy.memory_fraction == 1):
        return None
    size = trace.oom.capacity or 0
    return min(size, LARGEST_DEVICE) if size >= GRID else None


def _capacity_of_record(recorded: Recorded) -> int | None:
    """Returns the capacity at the first failure of a record that was made without metadata."""
    for event, held in recorded.held_after_events():
        if event.kind == "oom" and event.device_free is not None and held + event.device_free >= GRID:
            return min(held + event.device_free, LARGEST_DEVICE)
    return None


def limit_of(limit: Size | None, own_limit: int | None, capacity: int) -> int | None:
    """Returns the smaller of a given limit and the limit of the policy; None if there is neither.

    Raises:
        ConfigError: if the limit is not a size.
    """
    asked = None if limit is None else parse_bytes(limit, of=capacity, what="limit", round_down=True)
    given = [value for value in (asked, own_limit) if value is not None]
    return min(given) if given else None
