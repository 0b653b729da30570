"""Virtual memory management: manages physical memory (`Chunk`) and address ranges (`Reservation`) separately.

A `Mapping` makes a chunk visible at an address of a reservation.

::

    with vmm.reserve(gpu, "4MiB") as addresses, vmm.create(gpu, "2MiB") as chunk:
        here = addresses.map(chunk, access=gpu)
        there = addresses.map(chunk, "2MiB", access=gpu)     # the same bytes at a second address
        here.fill(7)

A `Segment` is a contiguous range that maps many chunks: chunks of its own (`Segment.create`), or free chunks of one or
several devices (`stitch`).
"""

from memlake.vmm.chunk import Chunk, create, import_chunk
from memlake.vmm.mapping import Mapping
from memlake.vmm.reservation import Reservation, reserve
from memlake.vmm.segment import Segment, stitch

__all__ = ["Chunk", "Mapping", "Reservation", "Segment", "create", "import_chunk", "reserve", "stitch"]
