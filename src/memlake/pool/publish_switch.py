"""The switch ``MEMLAKE_PUBLISH``: whether the pools of this process are published from the start."""

from __future__ import annotations

import os
import sys

from memlake.errors import ConfigError

__all__ = ["publish_if_asked"]

_VARIABLE = "MEMLAKE_PUBLISH"
_SWITCHES = {"": False, "0": False, "1": True}

_is_decided_for = 0
"""The process that has decided it. A forked child decides anew."""


def publish_if_asked() -> None:
    """Publishes the pools of this process if the environment asks for it. Only the first call in a process decides.

    A failure is one line on stderr: a program must not end because nobody can look at it.
    """
    global _is_decided_for
    if _is_decided_for == os.getpid():
        return
    _is_decided_for = os.getpid()
    try:
        if _is_asked():
            # Imported here, because it imports pools.
            from memlake.pool.published import publish

            publish()
    except ConfigError as error:
        if sys.stderr is not None:
            print(f"memlake: {error}", file=sys.stderr)


def _is_asked() -> bool:
    text = os.environ.get(_VARIABLE, "").strip()
    if text not in _SWITCHES:
        raise ConfigError(f"{_VARIABLE} must be 1 or 0, got {text[:60]!r}; hint: 1 shows the pools in `memlake top`")
    return _SWITCHES[text]
