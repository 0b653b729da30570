"""Decay: one thread releases unneeded memory of all pools that were made with ``decay=``."""

from __future__ import annotations

import atexit
import os
import threading
import time
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from memlake.errors import ClosedError, ConfigError, MemlakeError
from memlake.logs import logger

if TYPE_CHECKING:
    from memlake.pool.pool import Pool

__all__ = ["DecayThread", "decay_thread", "parse_decay"]

_log = logger("pool")


def parse_decay(decay: float | None) -> float | None:
    """Checks a ``decay=`` argument and returns it in seconds.

    Raises:
        ConfigError: if the argument is not a positive number or None.
    """
    if decay is None:
        return None
    is_number = isinstance(decay, int | float) and not isinstance(decay, bool)
    if not is_number or not 0 < decay < threading.TIMEOUT_MAX:
        raise ConfigError(f"decay is a time in seconds above 0, or None for never; got {decay!r}")
    return float(decay)


class DecayThread:
    """Makes each of its pools release, once per period, the memory that the pool did not need in that period."""

    def __init__(self) -> None:
        self.forget_all()

    def forget_all(self) -> None:
        """Resets the object. A forked child calls it: neither the thread nor the holder of the lock exist there."""
        self._due: WeakKeyDictionary[Pool, float] = WeakKeyDictionary()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_over = False

    def look_after(self, pool: Pool) -> None:
        """Adds a pool, for as long as it exists and is open."""
        with self._changed:
            if pool.decay is None or self._is_over:
                return
            pool._take_recent_peak()  # the first period begins here
            self._due[pool] = time.monotonic() + pool.decay
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="memlake-decay", daemon=True)
                self._thread.start()
                atexit.register(self._stop)
            self._changed.notify()

    def _run(self) -> None:
        while (pools := self._wait_for_due()) is not None:
            while pools:
                _give_back(pools.pop())

    def _wait_for_due(self) -> list[Pool] | None:
        """Waits for pools whose period has ended and returns them. Returns None when the program ends."""
        with self._changed:
            while not self._is_over:
                now = time.monotonic()
                due = [pool for pool, at in self._due.items() if at <= now]
                for pool in due:
                    if pool.is_open and pool.decay is not None:
                        self._due[pool] = now + pool.decay
                    else:
                        del self._due[pool]
                if due:
                    return due
                self._changed.wait(max(0.0, min(self._due.values()) - now) if self._due else None)
        return None

    def _stop(self) -> None:
        """Ends the thread before the interpreter shuts down, so that it makes no driver call during the shutdown."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()


def _give_back(pool: Pool) -> None:
    try:
        pool._release_unused()
    except ClosedError:
        pass  # another thread closed the pool
    except MemlakeError as error:
        _log.warning("%r: memory could not be released after its decay: %s", pool, error)
        # Reported as the error of a thread, but the thread continues: other pools need it.
        threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, None)))


decay_thread = DecayThread()
"""The decay thread of this process."""

os.register_at_fork(after_in_child=decay_thread.forget_all)
