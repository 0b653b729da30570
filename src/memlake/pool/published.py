"""`publish`: lets ``memlake top`` see the pools of this process."""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from memlake import _native
from memlake.errors import ConfigError, MemlakeError
from memlake.pool.pool import Pool
from memlake.pool.torch_pool import pool_of_torch
from memlake.publishing import Publisher

__all__ = ["publish"]

_MOST_DEVICES_OF_TORCH = 64
_LONGEST_PROGRAM = 200

_lock = threading.Lock()
_publisher: Publisher | None = None


def publish() -> Publisher:
    """Lets other processes of the same user read the figures of all pools of this process: ``memlake top``.

    The environment variable ``MEMLAKE_PUBLISH=1`` does the same when the first pool is made. A second call returns the
    same publisher. It ends with the process, with its `close`, or with a ``with`` or ``async with`` block.

    Raises:
        ConfigError: if the folder of the sockets cannot be used.
    """
    global _publisher
    with _lock:
        if _publisher is None or not _publisher.is_open:
            try:
                _publisher = Publisher(partial(_native.answer_reader, look=_Look()))
            except OSError as error:
                raise ConfigError(
                    f"the pools of this process cannot be published: {error}; hint: set XDG_RUNTIME_DIR to a folder of "
                    "your own"
                ) from error
        return _publisher


def _start_anew() -> None:
    """In a forked child: nothing is published, and nobody holds the lock."""
    global _lock, _publisher
    _lock, _publisher = threading.Lock(), None


os.register_at_fork(after_in_child=_start_anew)


class _Look:
    """Says which pools are open, and what rarely changes about them. The core reads the figures, and sends them.

    The core calls it when a pool was made, and else every ten seconds.
    """

    def __init__(self) -> None:
        self._head = _without_end({"program": _program(), "version": _native.__version__})
        self._of_torch: list[Pool] = []

    def __call__(self) -> tuple[str, list[tuple[Pool, str]]]:
        # Pools that C functions made for PyTorch become known here. The list keeps their objects, which a dictionary of
        # weak references does not.
        serving = [pool_of_torch(device) for device in range(_MOST_DEVICES_OF_TORCH)]
        self._of_torch = [pool for pool in serving if pool is not None]
        known = [pool for reference in Pool._known.valuerefs() if (pool := reference()) is not None]
        told: list[tuple[Pool, str]] = []
        for pool in known:
            # A pool whose device answers no more has nothing to tell. The others have.
            with suppress(MemlakeError):
                if pool.is_open:
                    told.append((pool, self._description_of(pool)))
        return self._head, told

    def _description_of(self, pool: Pool) -> str:
        told = {
            "pool": pool._identity,
            "policy": pool.policy.label,
            "devices": [device.ordinal for device in pool.devices],
            "device": pool.device.name,
            "serves": "torch" if pool._serves_torch else "",
        }
        return _without_end(told)


def _without_end(told: dict[str, Any]) -> str:
    """Returns a JSON object without its last bracket."""
    return json.dumps(told)[:-1]


def _program() -> str:
    try:
        words = Path("/proc/self/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        words = sys.argv
    first = os.path.basename(words[0]) if words else ""  # noqa: PTH119  an empty name has no last part
    return " ".join([first, *words[1:]]).strip()[:_LONGEST_PROGRAM]
