"""The cost of driver calls in replays: memlake's own table, or figures that were measured on a GPU."""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from pathlib import Path

from memlake import _native
from memlake.errors import ConfigError

__all__ = [
    "apply_costs_of_environment",
    "checked_costs",
    "default_costs",
    "is_finite_number",
    "load_costs",
    "use_costs",
]

_VARIABLE = "MEMLAKE_COSTS"


def default_costs() -> dict[str, float]:
    """Returns the cost table of this process: microseconds by the names of core/driver/cost_model.hpp."""
    return _native.cost_model()


def load_costs(path: str | os.PathLike[str]) -> dict[str, float]:
    """Reads the costs of a report of `make test-gpu` (its key ``costs``), or of a file that has only them.

    Raises:
        ConfigError: if the file cannot be read, or has no such costs.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the costs in {os.fspath(path)!r} cannot be read: {error}; hint: give a file that you may read, with JSON"
        ) from None
    return checked_costs(content.get("costs", content) if isinstance(content, dict) else None, path)


def checked_costs(costs: object, path: str | os.PathLike[str]) -> dict[str, float]:
    """Returns costs that were read from a file, if they are costs of driver calls.

    Raises:
        ConfigError: if they are not. It names the file.
    """
    known = _native.cost_model()
    if not isinstance(costs, dict) or not costs or not set(costs) <= set(known):
        raise ConfigError(
            f"{os.fspath(path)!r} has no costs of driver calls; hint: give a report of `make test-gpu`, or an object "
            f"with some of {', '.join(known)}"
        )
    for name, value in costs.items():
        if not is_finite_number(value):
            raise ConfigError(
                f"the cost {name!r} in {os.fspath(path)!r} is not a number of microseconds: {value!r}; hint: "
                "give a number of at least 0"
            )
    return {name: float(value) for name, value in costs.items()}


def is_finite_number(value: object) -> bool:
    """True for a finite number of at least 0."""
    # The bound also excludes NaN, and whole numbers that no float can hold.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def use_costs(path: str | os.PathLike[str]) -> None:
    """Uses the costs of a file for all later replays, also in processes that this one starts.

    Raises:
        ConfigError: as `load_costs`.
    """
    _native.set_cost_model(load_costs(path))
    os.environ[_VARIABLE] = os.fspath(Path(path).absolute())


def apply_costs_of_environment() -> None:
    """Uses the costs of the file that ``MEMLAKE_COSTS`` names, if it names one.

    Raises:
        ConfigError: as `load_costs`.
    """
    path = os.environ.get(_VARIABLE, "")
    if path:
        _apply(path)


@cache
def _apply(path: str) -> None:
    _native.set_cost_model(load_costs(path))
