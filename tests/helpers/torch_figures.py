"""The figures of a replay under PyTorch's policies, under the names that the expected ones have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from memlake import _native, emulator_library

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memlake import Trace

CALLS = {
    "cuMemAlloc": "cudaMalloc",
    "cuMemFree": "cudaFree",
    "cuMemAddressReserve": "cuMemAddressReserve",
    "cuMemAddressFree": "cuMemAddressFree",
    "cuMemCreate": "cuMemCreate",
    "cuMemMap": "cuMemMap",
    "cuMemSetAccess": "cuMemSetAccess",
    "cuMemUnmap": "cuMemUnmap",
    "cuMemRelease": "cuMemRelease",
    "cuEventRecord": "cudaEventRecord",
    "cuEventQuery": "cudaEventQuery",
}
"""The driver calls that are compared: our name and the name of the call that PyTorch makes."""

PEAKS = ("peak_requested", "peak_allocated", "peak_held", "end_held")
FIGURES = (*PEAKS, "failed_row", "ooms", "retries", *CALLS)
"""The names of all figures, in the order of the tables."""


def torch_options(is_expandable: bool, options: Mapping[str, Any]) -> _native.TorchOptions:
    """The options of PyTorch's allocators; those that are not named have PyTorch's defaults."""
    made = _native.TorchOptions()
    made.is_expandable = is_expandable
    for name, value in options.items():
        setattr(made, name, value)
    if "max_non_split_rounding" not in options:
        # As in PyTorch: it follows the size of a large segment until it is set.
        made.max_non_split_rounding = made.large_segment_size
    return made


def replayed(
    trace: Trace,
    capacity: int,
    is_expandable: bool,
    options: Mapping[str, Any] | None = None,
    fraction: float | None = None,
) -> dict[str, int | None]:
    """Replays a trace with immediate events up to its first failure, and gives all figures.

    Args:
        trace: what to replay.
        capacity: of the device, in bytes.
        is_expandable: whether segments are expandable.
        options: of PyTorch's allocator, in bytes, by the names that the core gives them.
        fraction: of the capacity that may be held; None for no limit.
    """
    report = _native.replay(
        _native.Driver.load(emulator_library()),
        torch_options(is_expandable, options or {}),
        trace.op,
        trace.id,
        trace.bytes,
        trace.stream.astype(np.uint8),
        capacity,
        None if fraction is None else int(fraction * capacity),
        "immediate",
        0,
        False,
        0,
    )
    failure = report.failure
    calls = report.calls
    return {
        **{name: getattr(report, name) for name in PEAKS},
        "failed_row": None if failure is None else failure["row"],
        "ooms": report.ooms,
        "retries": report.retries,
        **{name: calls.get(name, 0) for name in CALLS},
    }


def differences(ours: Mapping[str, int | None], expected: Mapping[str, int | None]) -> dict[str, Any]:
    """The figures that are not as expected: (ours, expected) by name."""
    return {name: (ours[name], value) for name, value in expected.items() if ours[name] != value}
