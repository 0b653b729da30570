"""Everything memlake raises on purpose.

::

    MemlakeError
    ├── OutOfMemory         (also MemoryError)   a pool cannot give what was asked
    ├── InvalidFree                              closed twice, or closed while something still needs it
    ├── DriverError                              a CUDA driver call failed
    │   └── ContractViolation                    a call that would crash or corrupt a real driver
    ├── ConfigError         (also ValueError)    a size, an option or a library that cannot be used
    ├── ClosedError         (also ValueError)    use after close
    ├── TraceError                               a trace that cannot be read
    └── BrokenInvariant     (also AssertionError) a pool's books are wrong: a bug in memlake

Closing or moving memory under a live NumPy view raises Python's own ``BufferError``.
All of them can be pickled.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BrokenInvariant",
    "ClosedError",
    "ConfigError",
    "ContractViolation",
    "DriverError",
    "InvalidFree",
    "MemlakeError",
    "OutOfMemory",
    "TraceError",
]


_OF_DETAILS = frozenset(
    {
        *("asked", "limit", "held", "live", "pending", "free", "largest_contiguous", "largest_stitchable"),
        *("pending_on", "tried", "reason", "hint"),
    }
)


class MemlakeError(Exception):
    """The root of everything memlake raises on purpose."""


class OutOfMemory(MemlakeError, MemoryError):  # noqa: N818
    """A pool cannot give what was asked, even after it tried everything it may do. The message says why.

    The driver's own "out of memory", below any pool, is a `DriverError` whose `is_out_of_memory` is true.

    Attributes:
        details: a `memlake.pool.shortage.Shortage`, the numbers behind the message; None if nobody gave them. Those of
            general interest are attributes of the error itself: `asked`, `limit`, `held`, `free`,
            `largest_contiguous`, `largest_stitchable`, `pending_on`, `tried`, `reason`, `hint`.
    """

    def __init__(self, message: str, details: Any = None) -> None:
        super().__init__(message, details)
        self.details = details

    def __str__(self) -> str:
        return str(self.args[0])

    def __getattr__(self, name: str) -> Any:
        if name in _OF_DETAILS and self.details is not None:
            return getattr(self.details, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class InvalidFree(MemlakeError):  # noqa: N818
    """Something was given back that cannot be given back: twice, or while something else still needs it."""


class ConfigError(MemlakeError, ValueError):
    """A value that cannot be used: a size, an option, a device, a stream, a library that cannot be loaded."""


class ClosedError(MemlakeError, ValueError):
    """An object was used after it was closed."""


class BrokenInvariant(MemlakeError, AssertionError):  # noqa: N818
    """`Pool.check` found something that must never be: a bug in memlake, please report it."""


class TraceError(MemlakeError):
    """A trace that cannot be read."""


class DriverError(MemlakeError):
    """A CUDA driver call failed.

    Attributes:
        call: the CUDA function, for instance ``"cuMemMap"``.
        code: its result as a number.
        name: the name CUDA gives that number.
        meaning: what this result usually means to someone who uses memlake.
        detail: why it happened this time, as far as the driver says; may be empty.
        kind: what to do about it, in one word:

            ``"out_of_memory"``
                no physical memory is left; free some and try again.
            ``"address_exhaustion"``
                no range of addresses of this size is free, or the size or alignment asked for is impossible; physical
                memory is not the problem.
            ``"sticky"``
                earlier work on the device failed and its context is lost; every later call fails the same way.
            ``"contract_violation"``
                see `ContractViolation`.
            ``"driver_gone"``
                the driver is not started, is shutting down, or this process was forked; nothing can be undone any more.
            ``"not_ready"``
                the work is not finished; an answer, not a failure.
            ``"invalid_call"``
                an argument was wrong; nothing was changed.
            ``"other"``
                everything else.
    """

    def __init__(self, call: str, code: int, name: str, meaning: str, detail: str, kind: str) -> None:
        super().__init__(call, code, name, meaning, detail, kind)
        self.call = call
        self.code = code
        self.name = name
        self.meaning = meaning
        self.detail = detail
        self.kind = kind

    def __str__(self) -> str:
        what = f"{self.call} failed with {self.name} ({self.code})"
        if self.detail and self.meaning:
            return f"{what}: {self.detail} ({self.meaning})"
        reason = self.detail or self.meaning
        return f"{what}: {reason}" if reason else what

    @property
    def is_sticky(self) -> bool:
        """True if the context is lost: every later call on it fails the same way."""
        return self.kind == "sticky"

    @property
    def is_out_of_memory(self) -> bool:
        """True if physical memory ran out (and not addresses, which CUDA reports with the same code)."""
        return self.kind == "out_of_memory"


class ContractViolation(DriverError):  # noqa: N818
    """A call that a real driver answers with a crash, a hang or corrupted memory. Only the emulator can tell.

    Nothing was changed by the call, and the context is not lost. `detail` is the sentence that names what was violated;
    the ledger (`memlake.emulator.ledger`) keeps it, too.
    """

    def __str__(self) -> str:
        return f"{self.call} violates the driver's contract: {self.detail}"
