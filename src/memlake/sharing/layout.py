"""The layout of a share: its chunks and devices, and the format in which they are sent.

A share is written as a header of fixed size, a table, and the descriptors themselves. The reader does not
trust the sender: it checks every number before it uses it, and it takes only numbers from the message.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from memlake.errors import ConfigError
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HEADER_SIZE", "Layout", "Run", "layout_of", "read_header", "read_table"]

_MAGIC = b"memlake\0"
_VERSION = 1
# Magic, version, whether the devices are emulated, runs, chunks, devices, bytes, address.
_HEADER = struct.Struct("<8sHHIIIQQ")
_RUN = struct.Struct("<IIQ")
_UUID_SIZE = 16

HEADER_SIZE = _HEADER.size

# The limits bound the memory that a forged header can make the reader allocate. 65536 chunks of 2 MiB are 128 GiB, and
# 256 devices are more than one machine has.
_MOST_CHUNKS = 65536
_MOST_DEVICES = 256
_MOST_BYTES = 2**62


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring chunks of one size on one device."""

    count: int
    device: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The memory of one buffer, without the descriptors.

    Attributes:
        nbytes: the size of the buffer; its chunks together may be larger.
        address: its address in the process that exported it.
        is_emulated: whether its devices are emulated.
        uuids: the UUIDs of its devices.
        runs: its chunks, in order.
    """

    nbytes: int
    address: int
    is_emulated: bool
    uuids: tuple[bytes, ...]
    runs: tuple[Run, ...]

    @property
    def chunk_count(self) -> int:
        """The number of chunks; each has one descriptor."""
        return sum(run.count for run in self.runs)

    def chunks(self) -> list[tuple[int, int]]:
        """Returns the size of each chunk and the index of its device in `uuids`, in order."""
        return [(run.nbytes, run.device) for run in self.runs for _ in range(run.count)]

    def header(self) -> bytes:
        """Returns the first part of the message, `HEADER_SIZE` bytes."""
        counts = len(self.runs), self.chunk_count, len(self.uuids)
        return _HEADER.pack(_MAGIC, _VERSION, self.is_emulated, *counts, self.nbytes, self.address)

    def table(self) -> bytes:
        """Returns the second part of the message. The header has its length."""
        return b"".join(self.uuids) + b"".join(_RUN.pack(run.count, run.device, run.nbytes) for run in self.runs)


@dataclass(frozen=True, slots=True)
class Header:
    """The content of the header of a share."""

    is_emulated: bool
    run_count: int
    chunk_count: int
    device_count: int
    nbytes: int
    address: int

    @property
    def table_size(self) -> int:
        """The number of bytes between the header and the descriptors."""
        return self.device_count * _UUID_SIZE + self.run_count * _RUN.size


def layout_of(
    nbytes: int, address: int, is_emulated: bool, uuids: Sequence[bytes], chunks: Sequence[tuple[int, int]]
) -> Layout:
    """Makes the layout of a buffer from the size of each chunk and the index of its device in `uuids`."""
    runs = tuple(Run(len(list(same)), device, size) for (size, device), same in groupby(chunks))
    return Layout(nbytes, address, is_emulated, tuple(uuids), runs)


def read_header(data: bytes) -> Header:
    """Reads the first part of a share.

    Raises:
        ConfigError: if the data is no share, or the share has another version or invalid numbers.
    """
    magic, version, emulated, runs, chunks, devices, nbytes, address = _HEADER.unpack(data)
    if magic != _MAGIC:
        raise ConfigError(f"what came over the socket is no share of memlake: it begins with {magic!r}")
    if version != _VERSION:
        raise ConfigError(
            f"the share has version {version}, this memlake knows version {_VERSION}; use one memlake on both sides"
        )
    _require(emulated in (0, 1), f"its mark of emulated devices is {emulated}")
    _require(1 <= runs <= chunks <= _MOST_CHUNKS, f"it has {chunks} chunks in {runs} runs")
    _require(1 <= devices <= _MOST_DEVICES, f"it has {devices} devices")
    _require(1 <= nbytes <= _MOST_BYTES, f"it has {nbytes} bytes")
    return Header(bool(emulated), runs, chunks, devices, nbytes, address)


def read_table(header: Header, data: bytes) -> Layout:
    """Reads the second part of a share.

    Raises:
        ConfigError: if its numbers are invalid.
    """
    rest = header.device_count * _UUID_SIZE
    uuids = tuple(data[place : place + _UUID_SIZE] for place in range(0, rest, _UUID_SIZE))
    runs = tuple(Run(*numbers) for numbers in _RUN.iter_unpack(data[rest:]))
    layout = Layout(header.nbytes, header.address, header.is_emulated, uuids, runs)
    _require(all(run.count >= 1 for run in runs), "a run of it has no chunks")
    _require(layout.chunk_count == header.chunk_count, "its runs have another number of chunks than its header")
    _require(all(run.device < len(uuids) for run in runs), "a chunk of it lies on a device that it does not name")
    _require(all(1 <= run.nbytes <= _MOST_BYTES for run in runs), "a chunk of it has an impossible size")
    total = sum(run.count * run.nbytes for run in runs)
    _require(
        header.nbytes <= total <= _MOST_BYTES,
        f"its chunks have {format_bytes(total)} together, the buffer {format_bytes(header.nbytes)}",
    )
    return layout


def _require(is_true: bool, fault: str) -> None:
    if not is_true:
        raise ConfigError(f"the share that came over the socket cannot be: {fault}")
