"""What a row of a trace says: one small number per operation, and its letter in the text form."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Op"]


class Op(IntEnum):
    """The operation of a row. The numbers are those of the file format and never change."""

    ALLOCATE = 0
    """`bytes` are asked for on `stream`; `id` names the allocation from here on."""
    FREE = 1
    """`id` is given back on the stream that it was allocated on."""
    RECORD_STREAM = 2
    """`id` is also used on `stream`: after its free it may be reused when that stream has passed."""
    EVENT_DONE = 3
    """Every stream that had used `id` has passed; comes after its free."""
    STEP = 4
    """Step number `id` begins."""
    SYNCHRONIZE = 5
    """The device was synchronised: nothing is pending any more."""
    EMPTY_CACHE = 6
    """The program asked for all cached memory to go back to the driver."""
    FREE_ON = 7
    """`id` is given back on `stream`, which is not the stream that it was allocated on."""
    TRIM = 8
    """The program asked for cached memory to go back to the driver, as long as `bytes` stay held; nobody waits."""
    PREALLOCATE = 9
    """The program asked for `bytes` of memory in one piece, for later requests of `stream`."""
