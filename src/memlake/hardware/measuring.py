"""Measures a device: asks for its features, and times the calls of its driver."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib.metadata import version
from statistics import median
from typing import TYPE_CHECKING, Any

from memlake import _native
from memlake.errors import DriverError
from memlake.hardware.report import CallCosts, CopySpeed, HardwareReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.device.device import Device

__all__ = ["measure"]

_MIB = 2**20
_HANDLES = (2 * _MIB, 20 * _MIB, 200 * _MIB)
_COPIED = 400 * _MIB
_OUT_OF_MEMORY = 2


def measure(device: Device, *, repeats: int = 5, most: int | None = None) -> HardwareReport:
    """Asks a device for its features and times driver calls and copies. It takes a few seconds on a GPU.

    Args:
        device: the device. Nothing else should use it meanwhile.
        repeats: how often each measurement is made; the median counts.
        most: the most memory that a measurement may use. None: a quarter of the free memory.
    """
    features = {name: asdict(feature) for name, feature in device.features.items()}
    budget = device.free_memory // 4 if most is None else most
    has_virtual_memory = bool(features["virtual_memory"]["has"])
    sizes = sorted({_rounded(size, device) for size in _HANDLES}) if has_virtual_memory else []
    calls = tuple(filter(None, (_calls(device, size, budget, repeats) for size in sizes)))
    plain_size = min(20 * _MIB, budget)
    plain = [_native.measure_plain(device._open, plain_size) for _ in range(repeats)]
    plain_costs = {"alloc": median(alloc for alloc, _ in plain), "free": median(free for _, free in plain)}
    copies = tuple(filter(None, (_copy(device, size, budget, repeats) for size in (0, *sizes))))
    return HardwareReport(
        gpu=device.name,
        driver_version=device._open.driver.version(),
        memory=device.total_memory,
        granularity=device.granularity if has_virtual_memory else None,
        is_emulated=device.is_emulated,
        system={"memlake": version("memlake"), "system": platform.platform(), "python": platform.python_version()},
        features=features,
        calls=calls,
        plain=plain_costs,
        copies=copies,
        costs=_model(calls, plain_costs),
    )


def _rounded(size: int, device: Device) -> int:
    return -(-size // device.granularity) * device.granularity


def _calls(device: Device, size: int, budget: int, repeats: int) -> CallCosts | None:
    handles = min(32, budget // size)
    if handles == 0:
        return None
    try:
        runs = [_native.measure_calls(device._open, size, handles) for _ in range(repeats)]
    except DriverError as error:
        if error.code != _OUT_OF_MEMORY:
            raise
        return None
    return CallCosts(handle_bytes=size, handles=handles, **{key: median(run[key] for run in runs) for key in runs[0]})


def _copy(device: Device, handle: int, budget: int, repeats: int) -> CopySpeed | None:
    total = min(_COPIED, budget // 2)
    total -= total % (handle or _MIB)
    if total == 0:
        return None
    try:
        speed = _native.measure_copy(device._open, total, handle, repeats)
    except DriverError as error:
        if error.code != _OUT_OF_MEMORY:
            raise
        return None
    return CopySpeed(handle_bytes=handle, total_bytes=total, bytes_per_second=speed)


def _model(calls: Sequence[CallCosts], plain: dict[str, float]) -> dict[str, float]:
    """Returns the cost model that follows from the measurements; without handles only that of plain allocations."""
    model: dict[str, Any] = dict(plain)
    if not calls:
        return model
    create, per_mib = _line([(row.handle_bytes / _MIB, row.create) for row in calls])
    return model | {
        "create": create,
        "create_per_mib": per_mib,
        "map": median(row.map for row in calls),
        "set_access_per_handle": median(row.set_access / row.handles for row in calls),
        "unmap_per_handle": median(row.unmap / row.handles for row in calls),
        "release": median(row.release for row in calls),
        "address_reserve": median(row.reserve for row in calls),
        "address_free": median(row.address_free for row in calls),
    }


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Returns the intercept and the slope of the line through the points, by least squares; neither is negative."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    slope = max(slope, 0.0)
    return max(mean_y - slope * mean_x, 0.0), slope
