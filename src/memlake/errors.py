"""The exceptions that memlake raises.

::

    MemlakeError
    ├── OutOfMemory         (also MemoryError)   a pool has no memory for a request
    ├── InvalidFree                              an object is closed twice, or closed while it is still needed
    ├── DriverError                              a CUDA driver call failed
    │   └── ContractViolation                    a call that would crash a real driver or corrupt its memory
    ├── ConfigError         (also ValueError)    a size, an option or a library that cannot be used
    ├── ClosedError         (also ValueError)    a closed object is used
    ├── TraceError                               a trace that cannot be read
    ├── SweepError                               a sweep cannot go on: its cluster or its results file
    └── BrokenInvariant     (also AssertionError) the bookkeeping of a pool is wrong: a bug in memlake

Closing or moving memory that has a live NumPy view raises Python's own ``BufferError``.
All of these exceptions can be pickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = [
    "BrokenInvariant",
    "ClosedError",
    "ConfigError",
    "ContractViolation",
    "DriverError",
    "InvalidFree",
    "MemlakeError",
    "OutOfMemory",
    "SweepError",
    "TraceError",
]


class MemlakeError(Exception):
    """The base class of all exceptions of memlake."""


class OutOfMemory(MemlakeError, MemoryError):  # noqa: N818
    """A pool has no memory for a request, after it tried everything its policy allows. The message says why.

    If a driver call outside a pool runs out of memory, the exception is a `DriverError` with `is_out_of_memory` True.

    Attributes:
        details: a `memlake.pool.shortage.Shortage` with the figures of the message, or None. The other attributes are
            figures of it; `Shortage` explains them. Without details the exception does not have them.
    """

    details: Any
    asked: int
    limit: int
    held: int
    live: int
    pending: int
    free: int
    largest_contiguous: int
    largest_stitchable: int
    pending_on: dict[int, int]
    tried: tuple[str, ...]
    reason: str
    binds: str
    hint: str

    def __init__(self, message: str, details: Any = None) -> None:
        super().__init__(message, details)
        self.details = details

    def __str__(self) -> str:
        return str(self.args[0])

    if not TYPE_CHECKING:  # a checker knows the attributes by the annotations above, and no others

        def __getattr__(self, name: str) -> Any:
            if name in OutOfMemory.__annotations__ and name != "details" and self.details is not None:
                return getattr(self.details, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class InvalidFree(MemlakeError):  # noqa: N818
    """An object was closed twice, or closed while another object still needs it."""


class ConfigError(MemlakeError, ValueError):
    """An argument cannot be used: a size, an option, a device, a stream, or a library that cannot be loaded."""


class ClosedError(MemlakeError, ValueError):
    """A closed object was used."""


class BrokenInvariant(MemlakeError, AssertionError):  # noqa: N818
    """`Pool.check` found a broken invariant. This is a bug in memlake; please report it."""


class TraceError(MemlakeError):
    """A trace cannot be read."""


class SweepError(MemlakeError):
    """A sweep cannot begin or go on: its cluster cannot be used, or its results file.

    Attributes:
        reason: what is wrong.
        hint: what to do; may be empty.
    """

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason, hint)
        self.reason = reason
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.reason}; hint: {self.hint}" if self.hint else self.reason


class DriverError(MemlakeError):
    """A CUDA driver call failed.

    Attributes:
        call: the CUDA function, for instance ``"cuMemMap"``.
        code: the result as a number.
        name: CUDA's name of the result.
        meaning: what the result usually means for a user of memlake.
        detail: the reason in this case, if the driver gives one; else empty.
        kind: the kind of failure:

            ``"out_of_memory"``
                no physical memory is free; free some and try again.
            ``"address_exhaustion"``
                no range of addresses of this size is free, or the requested size or alignment is impossible; physical
                memory may be free.
            ``"sticky"``
                earlier work on the device failed and its context is lost; every later call fails the same way.
            ``"contract_violation"``
                see `ContractViolation`.
            ``"driver_gone"``
                the driver is not started, is shutting down, or this process was forked; no call can succeed.
            ``"not_ready"``
                the work has not finished. This is an answer, not a failure.
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
        """True if the context is lost. Every later call on it fails the same way."""
        return self.kind == "sticky"

    @property
    def is_out_of_memory(self) -> bool:
        """True if physical memory ran out. CUDA uses the same code for exhausted addresses, for which this is False."""
        return self.kind == "out_of_memory"


class ContractViolation(DriverError):  # noqa: N818
    """A call that would make a real driver crash, hang or corrupt memory. Only the emulator raises it.

    The call changed nothing, and the context is not lost. `detail` describes the violation. The ledger
    (`memlake.emulator.ledger`) lists it as well.
    """

    def __str__(self) -> str:
        return f"{self.call} violates the driver's contract: {self.detail}"
