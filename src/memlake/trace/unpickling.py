"""Reads pickles of plain data without Python's unpickler. Nothing is imported and nothing is called.

A memory snapshot is a pickle of dicts, lists, strings and numbers. Python's unpickler imports and calls every object
that a pickle names. Even if all imports are refused, a pickle can make it exhaust memory (one large memo index is
enough) or compute forever (the hash of nested tuples). The core (core/pickles/) interprets only the opcodes that plain
data needs, and refuses every other opcode by name. Errors name the byte. It limits the memory that the data needs:

- dictionary keys are strings; the hashes that the core uses have a secret, so a file cannot choose them;
- numbers have at most 128 bits, marks nest at most 100 times, and memo indices are used in order;
- values may need `AMPLIFICATION` times the size of the file; real snapshots need two to four times.

The core does not recurse, so deeply nested data cannot overflow the stack. It stores equal strings, equal lists and the
keys of equal dicts once: nine tenths of a snapshot are repetitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake import _native
from memlake.trace.pickle_refusal import explain
from memlake.trace.source import SMALL_CHANGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlake.trace.source import Source

__all__ = ["unpickle"]

AMPLIFICATION = 32


def unpickle(source: Source, progress: Callable[[int, int], object] | None = None) -> _native.PickleNode:
    """Returns the root of the plain data in a pickle.

    Args:
        source: the file.
        progress: called with the bytes that are read and the bytes of the file, every few megabytes.

    Raises:
        TraceError: if the pickle has anything but plain containers and scalars, is broken or cut off, or needs too
            much memory. The error names the byte.
    """
    size = len(source.data)
    allowed = max(min(SMALL_CHANGE + AMPLIFICATION * size, source.memory_limit - size), 0)
    report = None if progress is None else lambda done: progress(done, size)
    root = _native.read_pickle(source.data, allowed, report)
    if isinstance(root, _native.PickleFault):
        raise explain(source, root)
    return root
