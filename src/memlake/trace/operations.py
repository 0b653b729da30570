"""The operations of a trace: one number per operation."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Op"]


class Op(IntEnum):
    """The operation of a row. The numbers are part of the file format and do not change.

    Compare a column with the plain number, as in ``op == Op.FREE.value``. NumPy looks up attributes of an operand that
    is no plain number. For an enum that is Python code before Python 3.12, and NumPy drops an interrupt in it.
    """

    ALLOCATE = 0
    """The program requests `bytes` on `stream`; `id` is the id of the new allocation."""
    FREE = 1
    """The program frees `id` on the stream that it was allocated on."""
    RECORD_STREAM = 2
    """`stream` uses `id` as well: after the free, its memory may be reused when that stream has passed."""
    EVENT_DONE = 3
    """All streams that used `id` have passed. The row comes after the free."""
    STEP = 4
    """Step number `id` begins."""
    SYNCHRONIZE = 5
    """The program synchronised the device. No memory is pending afterwards."""
    EMPTY_CACHE = 6
    """The program released all cached memory to the driver."""
    FREE_ON = 7
    """The program frees `id` on `stream`, which is not the stream that it was allocated on."""
    TRIM = 8
    """The program released cached memory to the driver but kept `bytes`, without waiting for streams."""
    PREALLOCATE = 9
    """The program took `bytes` of contiguous memory in advance, for later requests of `stream`."""
    RELEASE_POOL = 10
    """The last graph gave up a graph pool, which the label ``pool_id`` names. `bytes` is 1 if the free memory of the
    graph pool went back to the driver at once."""
