"""`publish`: lets ``memlake top`` see the pools of this process."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from operator import itemgetter
from pathlib import Path

from memlake import _native
from memlake.errors import ConfigError, MemlakeError
from memlake.pool.pool import Pool
from memlake.pool.torch_pool import pool_of_torch
from memlake.publishing import Publisher
from memlake.publishing.reader import CHANGING

__all__ = ["publish"]

_MOST_DEVICES_OF_TORCH = 64
_LONGEST_PROGRAM = 200
_BETWEEN_LOOKS = 2.0
"""After so many seconds PyTorch's devices are looked at again."""

_read_changing = itemgetter(*CHANGING)

_lock = threading.Lock()
_publisher: Publisher | None = None


def publish() -> Publisher:
    """Lets other processes of the same user read the figures of all pools of this process: ``memlake top``.

    The environment variable ``MEMLAKE_PUBLISH=1`` does the same when the first pool is made. A second call returns the
    same publisher. It ends with the process, or with its `close`.

    Raises:
        ConfigError: if the folder of the sockets cannot be used.
    """
    global _publisher
    with _lock:
        if _publisher is None or not _publisher.is_open:
            try:
                _publisher = Publisher(_Figures())
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


class _Figures:
    """Reads the figures of all open pools and returns them as JSON.

    It is called ten times a second and must cost little. What does not change is kept as text, and what changes is a
    list of numbers in the order of `memlake.publishing.reader.CHANGING`.
    """

    def __init__(self) -> None:
        self._head = json.dumps({"program": _program(), "version": _native.__version__})[:-1]
        self._fixed: dict[int, str] = {}
        self._of_torch: list[Pool] = []
        self._next_look = 0.0

    def __call__(self) -> str:
        # Only the references are copied here: a copy of the whole dictionary costs more than all figures.
        pools = [pool for reference in Pool._known.valuerefs() if (pool := reference()) is not None]
        if time.monotonic() >= self._next_look:
            self._look_at_torch(pools)
        found = []
        for pool in pools:
            try:
                if pool._is_open:
                    found.append(self._figures_of(pool))
            except MemlakeError:
                continue  # another thread has closed it
        if len(self._fixed) > 2 * len(pools):
            known = {pool._identity for pool in pools}
            self._fixed = {identity: text for identity, text in self._fixed.items() if identity in known}
        return f'{self._head}, "pools": [{", ".join(found)}]}}'

    def _look_at_torch(self, pools: list[Pool]) -> None:
        """Finds pools that C functions made for PyTorch. They become known, so this is needed once in a while only."""
        self._next_look = time.monotonic() + _BETWEEN_LOOKS
        serving = [pool_of_torch(device) for device in range(_MOST_DEVICES_OF_TORCH)]
        self._of_torch = [pool for pool in serving if pool is not None]
        pools += [pool for pool in self._of_torch if pool not in pools]

    def _figures_of(self, pool: Pool) -> str:
        identity = pool._identity
        fixed = self._fixed.get(identity)
        if fixed is None:
            fixed = self._fixed[identity] = self._fixed_of(pool, identity)
        native = pool._stats()
        # Python writes lists of numbers as JSON does, and tuples with other brackets; this is faster than the encoder.
        streams = str(native["streams"]).replace("(", "[").replace(")", "]")
        moves = native["policy_counters"].get("moved_chunks", "null")
        return f'{fixed}, "moves": {moves}, "now": {list(_read_changing(native))}, "streams": {streams}}}'

    def _fixed_of(self, pool: Pool, identity: int) -> str:
        told = {
            "pool": identity,
            "policy": pool.policy.label,
            "devices": [device.ordinal for device in pool.devices],
            "device": pool.device.name,
            "serves": "torch" if pool._serves_torch else "",
        }
        return json.dumps(told)[:-1]


def _program() -> str:
    try:
        words = Path("/proc/self/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        words = sys.argv
    first = os.path.basename(words[0]) if words else ""  # noqa: PTH119  an empty name has no last part
    return " ".join([first, *words[1:]]).strip()[:_LONGEST_PROGRAM]
