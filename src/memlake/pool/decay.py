"""Giving back what was not needed for a while: one thread for all pools that were made with ``decay=``."""

from __future__ import annotations

import atexit
import os
import threading
import time
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from memlake.errors import ClosedError, ConfigError, MemlakeError

if TYPE_CHECKING:
    from memlake.pool.pool import Pool

__all__ = ["DecayThread", "decay_thread", "parse_decay"]


def parse_decay(decay: float | None) -> float | None:
    """The seconds of a ``decay=`` argument.

    Raises:
        ConfigError: if they make no sense.
    """
    if decay is None:
        return None
    is_number = isinstance(decay, int | float) and not isinstance(decay, bool)
    if not is_number or not 0 < decay < threading.TIMEOUT_MAX:
        raise ConfigError(f"decay is a time in seconds above 0, or None for never; got {decay!r}")
    return float(decay)


class DecayThread:
    """Looks after pools: once per period, each gives back what it has not used since the look before."""

    def __init__(self) -> None:
        self.forget_all()

    def forget_all(self) -> None:
        """As at the start. Also in a forked child, where the thread is not, and whoever held the lock is not either."""
        self._due: WeakKeyDictionary[Pool, float] = WeakKeyDictionary()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_over = False

    def look_after(self, pool: Pool) -> None:
        """From now on, as long as the pool is there and open."""
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
        """Those whose period is over; None when the program ends."""
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
        """A thread that runs into the end of the interpreter is not to be trusted with drivers."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()


def _give_back(pool: Pool) -> None:
    try:
        pool._release_unused()
    except ClosedError:
        pass  # meanwhile
    except MemlakeError as error:
        # Told as the error of a thread, but the thread goes on: other pools need it.
        threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, None)))


decay_thread = DecayThread()
"""The one of this process."""

os.register_at_fork(after_in_child=decay_thread.forget_all)
