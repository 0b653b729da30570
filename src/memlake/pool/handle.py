"""Handles: a `Handle` is one handle of physical memory under a buffer, as transports register it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Handle", "export_types_of"]

_EXPORT_TYPES = {1: "posix_fd", 2: "win32", 4: "win32_kmt", 8: "fabric"}


class Handle(NamedTuple):
    """A part of a buffer that is in one handle. It is valid while the buffer is open.

    Attributes:
        handle: the ``CUmemGenericAllocationHandle``.
        offset: the first byte of the part, relative to the buffer's `ptr`.
        nbytes: the size of the part in bytes.
        start: the first byte of the part, relative to the start of the handle.
        export_types: the types that the handle can be exported as: ``"posix_fd"``, ``"fabric"``.
        is_rdma_capable: whether the driver granted GPUDirect RDMA for the handle.
    """

    handle: int
    offset: int
    nbytes: int
    start: int
    export_types: tuple[str, ...]
    is_rdma_capable: bool


def export_types_of(bits: int) -> tuple[str, ...]:
    """Returns the names of CUDA's handle types."""
    return tuple(name for bit, name in _EXPORT_TYPES.items() if bits & bit)
