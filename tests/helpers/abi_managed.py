"""The verbs of the cases about managed memory, beside those of a world."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_bool, c_int, c_size_t, c_uint64, c_void_p
from typing import TYPE_CHECKING

from helpers.abi_types import (
    ATTACH_GLOBAL,
    LOCATION_DEVICE,
    LOCATION_HOST,
    MemLocation,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from helpers.abi_world import World

HOST = MemLocation(type=LOCATION_HOST, id=0)


def on(device: int) -> MemLocation:
    """The memory of a device."""
    return MemLocation(type=LOCATION_DEVICE, id=device)


class ManagedDesk:
    """Managed memory of a world. A verb returns the driver's answer; the world frees what is left."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.driver = world.driver

    def new(self, size: int, flags: int = ATTACH_GLOBAL) -> int:
        """An allocation that is not the point of the case."""
        address = c_uint64(0)
        self.world.must("cuMemAllocManaged", self.driver.cuMemAllocManaged(byref(address), size, flags))
        self.world.allocations.append(address.value)
        return address.value

    def prefetch(self, address: int, size: int, location: MemLocation, stream: int | None = None) -> int:
        """cuMemPrefetchAsync."""
        return self.driver.cuMemPrefetchAsync(address, size, location, 0, stream)

    def advise(self, address: int, size: int, advice: int, location: MemLocation = HOST) -> int:
        """cuMemAdvise."""
        return self.driver.cuMemAdvise(address, size, advice, location)

    def attribute(self, address: int, size: int, attribute: int, count: int = 1) -> list[int]:
        """The 32-bit numbers of one attribute of a range."""
        values = (c_int * count)()
        code = self.driver.cuMemRangeGetAttribute(values, ctypes.sizeof(values), attribute, address, size)
        self.world.must(f"cuMemRangeGetAttribute({attribute})", code)
        return list(values)

    def pointer(self, address: int, attribute: int, kind: type[ctypes._SimpleCData] = c_int) -> int:
        """One attribute of a pointer."""
        value = kind()
        code = self.driver.cuPointerGetAttribute(byref(value), attribute, address)
        self.world.must(f"cuPointerGetAttribute({attribute})", code)
        return int(value.value or 0)

    def is_managed(self, address: int, attribute: int) -> bool:
        """An attribute that is a bool."""
        return bool(self.pointer(address, attribute, c_bool))

    def taken(self, device: int | None = None) -> int:
        """How much less memory the device has free than at the start of the case."""
        ordinal = self.world.device if device is None else device
        return self.world.free_at_start[ordinal] - self.world.free_memory(ordinal)

    def prefetch_batch(
        self,
        ranges: Sequence[tuple[int, int]],
        locations: Sequence[MemLocation],
        starts: Sequence[int],
        stream: int | None,
        function: str = "cuMemPrefetchBatchAsync",
        flags: int = 0,
    ) -> int:
        """cuMemPrefetchBatchAsync or its combination with a discard."""
        addresses = (c_uint64 * max(1, len(ranges)))(*[address for address, _ in ranges])
        sizes = (c_size_t * max(1, len(ranges)))(*[size for _, size in ranges])
        places = (MemLocation * max(1, len(locations)))(*locations)
        firsts = (c_size_t * max(1, len(starts)))(*starts)
        call = getattr(self.driver, function)
        return call(addresses, sizes, len(ranges), places, firsts, len(locations), flags, stream)

    def discard_batch(self, ranges: Sequence[tuple[int, int]], stream: int | None) -> int:
        """cuMemDiscardBatchAsync."""
        addresses = (c_uint64 * max(1, len(ranges)))(*[address for address, _ in ranges])
        sizes = (c_size_t * max(1, len(ranges)))(*[size for _, size in ranges])
        return self.driver.cuMemDiscardBatchAsync(addresses, sizes, len(ranges), 0, stream)

    def pool_at(self, function: str, location: MemLocation, allocation_type: int) -> tuple[int, int | None]:
        """cuMemGetDefaultMemPool or cuMemGetMemPool: the answer and the pool."""
        pool = c_void_p()
        code = getattr(self.driver, function)(byref(pool), byref(location), allocation_type)
        return code, pool.value
