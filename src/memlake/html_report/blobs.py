"""Blobs: arrays of numbers inside a page. A blob has columns of typed arrays, packed with deflate and base64.

The script of the page unpacks a blob when it is first needed, so a page with many megabytes of them opens at once.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

__all__ = ["UNIT", "Blobs", "in_units"]

UNIT = 512
"""Sizes in blobs are multiples of this many bytes: the smallest block of PyTorch. 32 bits hold 2 TiB of them."""
_TYPES = {"|u1": "u8", "<u2": "u16", "<u4": "u32", "<f8": "f64", "<f4": "f32"}
_LARGEST = 2**32 - 1


class Blobs:
    """The blobs of one page."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, columns: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
        """Adds a blob of columns and returns what the page needs to read it."""
        packed = zlib.compress(b"".join(np.ascontiguousarray(column).tobytes() for column in columns.values()), 6)
        self.texts.append(base64.b64encode(packed).decode())
        types = [[name, _TYPES[column.dtype.str], len(column)] for name, column in columns.items()]
        return {"blob": len(self.texts) - 1, "columns": types}

    @property
    def nbytes(self) -> int:
        """The bytes of all blobs in the page."""
        return sum(map(len, self.texts))


def in_units(nbytes: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    """Returns sizes in bytes as whole units, rounded up; a size of 2 TiB or more is cut off there."""
    units = (nbytes.astype(np.float64) + (UNIT - 1)) // UNIT
    return np.clip(units, 0, _LARGEST).astype(np.uint32)
