"""What happens when an object is dropped and the driver refuses to take it back.

Nobody can catch an exception there, so it becomes a warning.
"""

from __future__ import annotations

import warnings

from memlake import _native

__all__ = ["install"]

_ILLEGAL_ADDRESS = 700


def install() -> None:
    """Tells the core to whom such failures go."""
    _native.set_undo_failure_hook(_warn)


def _warn(call: str, code: int, detail: str) -> None:
    if code == _ILLEGAL_ADDRESS:
        return  # the context is lost with all that was in it, and every call of it has said so
    warnings.warn(
        f"an object that was dropped without close() could not be given back: {call} answered {code}: {detail}",
        ResourceWarning,
        stacklevel=2,
    )
