"""Pieces: a `Piece` tells which device a part of a buffer is on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from memlake.device.device import Device

__all__ = ["Piece"]


class Piece(NamedTuple):
    """A part of a buffer whose memory is on one device, or on the host.

    Attributes:
        device: the device. None: host memory, in a pool with ``spill="host"`` or ``location="host"``.
        offset: the first byte of the part, relative to the buffer's `ptr`.
        nbytes: the size of the part in bytes.
    """

    device: Device | None
    offset: int
    nbytes: int
