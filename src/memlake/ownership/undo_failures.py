"""Undo failures: the driver refuses a call while an object is dropped, or while memlake undoes something itself.

A destructor cannot raise, so the failure becomes a ResourceWarning. Python ignores these by default. If the emulator
refused the call because a real driver would crash or corrupt memory, it becomes a RuntimeWarning, which Python shows.
"""

from __future__ import annotations

import warnings

from memlake import _native
from memlake.logs import logger

__all__ = ["install"]

_ILLEGAL_ADDRESS = 700

_log = logger("undo")


def install() -> None:
    """Installs the hook through which the core reports undo failures."""
    _native.set_undo_failure_hook(_warn)


def _warn(call: str, code: int, detail: str, is_violation: bool) -> None:
    if code == _ILLEGAL_ADDRESS:
        return  # the context is lost; every call on it has already raised this error
    # The core makes such calls for objects that the program has dropped, and for objects of its own.
    text = (
        f"{call} answered {code}: {detail}; the call gives something back or undoes something, for an object that was "
        "dropped without close() or for memlake itself, and no error could be raised there"
    )
    _log.warning("%s", text)
    warnings.warn(
        text,
        RuntimeWarning if is_violation else ResourceWarning,
        stacklevel=2,
    )
