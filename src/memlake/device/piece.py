"""Pieces: on which devices the bytes of a buffer lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from memlake.device.device import Device

__all__ = ["Piece"]


class Piece(NamedTuple):
    """A part of a buffer that lies on one device, or on the host.

    Attributes:
        device: whose memory it is; None: the host's, in a pool with ``spill="host"`` or ``location="host"``.
        offset: where it begins, from the buffer's `ptr`.
        nbytes: how many bytes it has.
    """

    device: Device | None
    offset: int
    nbytes: int
