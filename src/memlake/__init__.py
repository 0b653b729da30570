"""memlake: a GPU memory pool that manages physical memory and addresses separately, and a CUDA driver emulator.

::

    import memlake

    memlake.devices()                                   # CUDA devices, or [] without a GPU
    a, b = memlake.emulate(devices=2, memory="8GiB")    # emulated GPUs, in this process only
    trace = memlake.Trace.load("snapshot.pickle")       # the requests that a program made to its allocator
    memlake.compare(trace, capacity="80GiB").sentence   # does the program fit, and under which policies?

Start with docs/guides/will_it_fit.md, or with docs/guides/stitch_by_hand.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memlake import driver, emulator, errors, policies, sharing, trace, vmm
    from memlake._native import __version__
    from memlake.analysis import advise, compare, diff, fit, never_freed
    from memlake.analysis.overview import overview
    from memlake.device import Device, Event, Stream, devices
    from memlake.emulator.emulated_device import EmulatedDevice, EmulatedDevices, emulate
    from memlake.errors import (
        ClosedError,
        ConfigError,
        ContractViolation,
        DriverError,
        InvalidFree,
        MemlakeError,
        OutOfMemory,
        TraceError,
    )
    from memlake.html_report import report
    from memlake.jobs import ranks
    from memlake.libraries import emulator_library, native_library
    from memlake.policies import policy
    from memlake.pool import Buffer, Pool, allocate, current_pool, default_pool, set_current_pool, use_pool
    from memlake.pool.published import publish
    from memlake.replaying import replay
    from memlake.sweeping import sweep
    from memlake.trace import Trace

__all__ = [
    "Buffer",
    "ClosedError",
    "ConfigError",
    "ContractViolation",
    "Device",
    "DriverError",
    "EmulatedDevice",
    "EmulatedDevices",
    "Event",
    "InvalidFree",
    "MemlakeError",
    "OutOfMemory",
    "Pool",
    "Stream",
    "Trace",
    "TraceError",
    "__version__",
    "advise",
    "allocate",
    "compare",
    "current_pool",
    "default_pool",
    "devices",
    "diff",
    "driver",
    "emulate",
    "emulator",
    "emulator_library",
    "errors",
    "fit",
    "native_library",
    "never_freed",
    "overview",
    "policies",
    "policy",
    "publish",
    "ranks",
    "replay",
    "report",
    "set_current_pool",
    "sharing",
    "sweep",
    "trace",
    "use_pool",
    "vmm",
]

# The module of each name. A name is imported when it is first used: every pytest run imports this file for memlake's
# plugin, and most runs use no name of it.
_MODULES = frozenset({"driver", "emulator", "errors", "policies", "sharing", "trace", "vmm"})
_HOMES = {
    "Buffer": "pool",
    "Device": "device",
    "EmulatedDevice": "emulator.emulated_device",
    "EmulatedDevices": "emulator.emulated_device",
    "Event": "device",
    "Pool": "pool",
    "Stream": "device",
    "Trace": "trace",
    "__version__": "_native",
    "advise": "analysis",
    "allocate": "pool",
    "compare": "analysis",
    "current_pool": "pool",
    "default_pool": "pool",
    "devices": "device",
    "diff": "analysis",
    "emulate": "emulator.emulated_device",
    "emulator_library": "libraries",
    "fit": "analysis",
    "native_library": "libraries",
    "never_freed": "analysis",
    "overview": "analysis",
    "policy": "policies",
    "publish": "pool.published",
    "ranks": "jobs",
    "replay": "replaying",
    "report": "html_report",
    "set_current_pool": "pool",
    "sweep": "sweeping",
    "use_pool": "pool",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'memlake' has no attribute {name!r}")
    if name in _MODULES:
        return import_module(f"memlake.{name}")
    value = getattr(import_module(f"memlake.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
