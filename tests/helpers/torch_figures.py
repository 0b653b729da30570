"""The figures of a replay under PyTorch's policies, under the names that the expected ones have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlake import _native, emulator_library

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memlake import Trace
    from memlake.policies import TorchOptions

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


def replayed(trace: Trace, capacity: int, options: TorchOptions, goes_on: bool = False) -> dict[str, int | None]:
    """Replays a trace with immediate events, up to its first failure or past every one, and gives all figures."""
    report = _native.replay(
        _native.Driver.load(emulator_library()),
        options.configuration,
        trace.op,
        trace.id,
        trace.bytes,
        trace.stream,
        capacity,
        options.limit_on(capacity),
        "immediate",
        0,
        goes_on,
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
