"""The emulated driver, for tests: read its ledger and control when its streams run.

A process has one emulated driver. `memlake.emulate()` adds devices to it. `pytest_plugin` offers the emulator to tests.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memlake.emulator.driver_ledger import Ledger, ledger, reset_ledger
    from memlake.emulator.queued_work import Gate, hold, launch, pending, step

__all__ = ["Gate", "Ledger", "hold", "launch", "ledger", "pending", "reset_ledger", "step"]

# The module of each name. A name is imported when it is first used. The command line reads the emulator's settings from
# this package, and must start without the core, so that `memlake doctor` can say why the core does not load. pytest
# imports this package at the start of every run.
_HOMES = {"Ledger": "driver_ledger", "ledger": "driver_ledger", "reset_ledger": "driver_ledger"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'memlake.emulator' has no attribute {name!r}")
    value = getattr(import_module(f"memlake.emulator.{_HOMES.get(name, 'queued_work')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
