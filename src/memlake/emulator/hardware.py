"""Named machines: settings of emulated devices that lack what some real ones lack.

``memlake.emulate(hardware="wsl2")``, or the environment variable ``MEMLAKE_HARDWARE=wsl2`` for all calls of `emulate`.
"""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from memlake.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HARDWARE", "settings_of"]

HARDWARE: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "usual": {},
        "no-alias": {"aliasing": "none"},
        "whole": {"aliasing": "whole"},
        "prefix": {"aliasing": "prefix"},
        "stale-alias": {"lacks": ("shared_bytes",)},
        "no-rdma": {"lacks": ("rdma",)},
        "wsl2": {"lacks": ("rdma_access",)},
        "no-export": {"lacks": ("export",), "fabric": "create"},
        "split-copies": {"lacks": ("spanning_copies",)},
        "old-driver": {"driver_version": 12020, "aliasing": "whole", "lacks": ("rdma_grant",)},
        "no-vmm": {"lacks": ("vmm",)},
    }
)
"""The settings of each named machine, by the names of the arguments of `memlake.emulate`."""

_VARIABLE = "MEMLAKE_HARDWARE"


def settings_of(hardware: str | None) -> Mapping[str, Any]:
    """Returns the settings of a named machine. None: of the one that ``MEMLAKE_HARDWARE`` names.

    Raises:
        ConfigError: if there is no machine of this name.
    """
    name = os.environ.get(_VARIABLE, "") or "usual" if hardware is None else hardware
    try:
        return HARDWARE[name]
    except (KeyError, TypeError):
        given = f"hardware={hardware!r}" if hardware is not None else f"{_VARIABLE}={name}"
        raise ConfigError(f"{given} is not a known machine; the known ones are {', '.join(HARDWARE)}") from None
