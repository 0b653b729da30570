"""Pieces: a `Piece` tells which device a part of a buffer is on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from memlake.device.device import Device

__all__ = ["Piece"]


class _Place(NamedTuple):
    device: Device | None
    offset: int
    nbytes: int


class Piece(_Place):
    """A part of a buffer whose memory is on one device, or on the host.

    Attributes:
        device: the device. None: host memory, in a pool with ``spill="host"`` or ``location="host"``.
        offset: the first byte of the part, relative to the buffer's `ptr`.
        nbytes: the size of the part in bytes.
    """

    _asks: Callable[[Piece], bool] | None = None

    def _with_rdma(self, asks: Callable[[Piece], bool]) -> Self:
        """Lets the piece ask about GPUDirect RDMA when the program does: the answer takes driver calls."""
        self._asks = asks
        return self

    @property
    def is_rdma_capable(self) -> bool:
        """Whether all memory of the piece can be registered for GPUDirect RDMA. The driver is asked at each call.

        Raises:
            ClosedError: if the buffer is closed.
        """
        return self._asks is not None and self._asks(self)
