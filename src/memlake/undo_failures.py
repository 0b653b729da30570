"""What happens when an object is dropped and the driver refuses to take it back.

Nobody can catch an exception there, so it becomes a warning.
"""

from __future__ import annotations

import warnings

from memlake import _native

__all__ = ["install"]


def install() -> None:
    """Tells the core to whom such failures go."""
    _native.set_undo_failure_hook(_warn)


def _warn(call: str, code: int, detail: str) -> None:
    warnings.warn(
        f"an object that was dropped without close() could not be given back: {call} answered {code}: {detail}",
        ResourceWarning,
        stacklevel=2,
    )
