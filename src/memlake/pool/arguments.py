"""Checks the arguments of `memlake.Pool`. Each error says what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from memlake import _native
from memlake.device.device import Device
from memlake.errors import ConfigError
from memlake.logs import logger
from memlake.policies import Options, policies_with
from memlake.pool.chosen_device import chosen_device
from memlake.units import Size, parse_bytes

if TYPE_CHECKING:
    from memlake.pool.pool import Pool

__all__ = [
    "GPU_DIRECT_RDMA",
    "DeviceLike",
    "HandleType",
    "Location",
    "Placement",
    "Spill",
    "device_list",
    "high_mark",
    "require_capable",
    "require_pinned",
    "total_memory",
]


GPU_DIRECT_RDMA = 116
"""``CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED``, of plain allocations."""
_log = logger("pool")

Placement = Literal["fill", "balance", "near"]
"""On which of several devices new memory is created."""

Location = Literal["device", "host", "host_numa"]
"""Where the memory of a pool is."""

Spill = Literal["host"]
"""Where memory goes that has no room on the devices."""

HandleType = Literal["none", "posix_fd", "fabric"]
"""How other processes get memory of a pool."""


class HasDeviceId(Protocol):
    """A device of another library, such as a ``cuda.core.Device``."""

    @property
    def device_id(self) -> int: ...


DeviceLike = Device | HasDeviceId | int
"""The type of the devices of a pool."""


def device_list(devices: DeviceLike | Sequence[DeviceLike]) -> tuple[Device, ...]:
    if not isinstance(devices, Sequence) or isinstance(devices, str | bytes):
        return (chosen_device(devices),)
    if not devices:
        raise ConfigError("a pool needs a device; the list is empty")
    chosen = tuple(chosen_device(device) for device in devices)
    if len(set(chosen)) < len(chosen):
        raise ConfigError("a pool needs different devices; one is there twice")
    for device in chosen:
        for other in chosen:
            if not device.can_access(other):
                raise ConfigError(
                    f"{device!r} cannot reach the memory of {other!r}, so they cannot share a pool; make one pool each"
                )
    return chosen


def total_memory(devices: tuple[Device, ...], location: str) -> int:
    """Returns the memory that a share such as ``"50%"`` refers to: that of the devices, or of the host."""
    return _native.host_memory() if location != "device" else sum(device.total_memory for device in devices)


def require_capable(
    policy: Options,
    devices: tuple[Device, ...],
    fallback_reason: str | None,
    *,
    placement: str,
    location: str,
    spill: str | None,
    handle_type: str | None,
) -> None:
    """Raises ConfigError if the arguments are invalid, or need a capability that the policy does not have.

    Args:
        fallback_reason: why the pool has another policy than the default one, although the program chose none.
    """
    if placement not in get_args(Placement):
        raise ConfigError(f"placement must be 'fill', 'balance' or 'near', got {placement!r}")
    if location not in get_args(Location):
        raise ConfigError(f"location must be 'device', 'host' or 'host_numa', got {location!r}")
    if spill not in (None, *get_args(Spill)):
        raise ConfigError(f"spill must be 'host' or None, got {spill!r}")
    if spill is not None and handle_type is not None:
        raise ConfigError(
            "memory that can be shared cannot spill; leave spill out, or ask for shareable buffers one by one"
        )
    if spill is not None and location != "device":
        raise ConfigError(f"a pool with location={location!r} is on the host already; leave spill out")
    can = policy.capabilities
    why = "" if fallback_reason is None else f"; {fallback_reason}"
    wanted = {
        "spill": (spill is not None and not can.spill, f"spill={spill!r}"),
        "host_memory": (location != "device" and not can.host_memory, f"location={location!r}"),
    }
    for capability, (is_missing, what) in wanted.items():
        if is_missing:
            able = policies_with(capability)
            raise ConfigError(f"{what} needs the policy {able}; {policy.name!r} knows the memory of one device{why}")
    if can.several_devices:
        return
    able = policies_with("several_devices")
    if len(devices) > 1:
        raise ConfigError(
            f"a pool over {len(devices)} devices needs the policy {able}; {policy.name!r} knows one device{why}"
        )
    if placement != "fill":
        raise ConfigError(f"placement is about several devices, which need the policy {able}{why}")


def require_pinned(allocation_type: str) -> None:
    if allocation_type == "managed":
        raise ConfigError(
            'allocation_type "managed" is not offered: memory that the driver migrates cannot be mapped by a pool, and '
            "the drivers' own managed pools need CUDA 13 and a device with concurrent managed access"
        )
    if allocation_type == "device":
        raise ConfigError(
            'allocation_type "pinned" is memory of the device: CUDA calls it pinned because the driver does not '
            'migrate it. Leave allocation_type out; for memory of the host make the pool with location="host"'
        )
    if allocation_type != "pinned":
        raise ConfigError(f"allocation_type must be 'pinned', got {allocation_type!r}")


def high_mark(on_high: tuple[Size, Callable[[Pool], object]], total: int) -> tuple[int, Callable[[Pool], object]]:
    try:
        mark, function = on_high
    except (TypeError, ValueError):
        raise ConfigError(f"on_high must be (bytes, function), got {on_high!r}") from None
    if not callable(function):
        raise ConfigError(f"on_high must be (bytes, function); {function!r} cannot be called")
    return parse_bytes(mark, of=total, what="the mark of on_high"), _guarded(function)


def _guarded(on_high: Callable[[Pool], object]) -> Callable[[Pool], object]:
    """Returns the function without its exceptions.

    The request was served when it is called. The caller of the request did not call the function, and cannot know what
    its exceptions mean.
    """

    def call(pool: Pool) -> None:
        try:
            on_high(pool)
        except Exception as error:
            _log.exception("%r: on_high raised an exception", pool)
            _native.report_ignored(error, on_high)

    return call
