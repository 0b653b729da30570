"""The verbs of the cases about memory pools, beside those of a world, and the end of what they made."""

from __future__ import annotations

import os
from ctypes import byref, c_int, c_uint64, c_void_p
from typing import TYPE_CHECKING

from helpers.abi_types import (
    ALLOCATION_PINNED,
    HANDLE_NONE,
    HANDLE_POSIX_FD,
    LOCATION_DEVICE,
    POOL_HELD,
    POOL_INTERNAL,
    POOL_USED,
    MemLocation,
    MemPoolProps,
    MemPoolPtrExportData,
)

if TYPE_CHECKING:
    from helpers.abi_world import World


class PoolDesk:
    """Pools and what was allocated from them. A verb returns the driver's answer, a maker the answer and what it made;
    `new_*` are for steps that are not the point of the case."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.driver = world.driver
        self.pools: list[int] = []
        self.allocations: list[int] = []

    # -- pools --------------------------------------------------------------------------------------------------------

    def props(self, device: int | None = None, handle_types: int = HANDLE_NONE, max_size: int = 0) -> MemPoolProps:
        """What an ordinary pool is made with."""
        ordinal = self.world.device if device is None else device
        return MemPoolProps(
            alloc_type=ALLOCATION_PINNED,
            handle_types=handle_types,
            location=MemLocation(type=LOCATION_DEVICE, id=ordinal),
            max_size=max_size,
        )

    def create(self, props: MemPoolProps) -> tuple[int, int]:
        """cuMemPoolCreate."""
        pool = c_void_p()
        code = self.driver.cuMemPoolCreate(byref(pool), byref(props))
        if code == 0:
            self.pools.append(pool.value)
        return code, pool.value

    def destroy(self, pool: int) -> int:
        """cuMemPoolDestroy."""
        code = self.driver.cuMemPoolDestroy(pool)
        if code == 0:
            self.pools.remove(pool)
        return code

    def new_pool(self, device: int | None = None, handle_types: int = HANDLE_NONE, max_size: int = 0) -> int:
        """A pool of device memory."""
        code, pool = self.create(self.props(device, handle_types, max_size))
        self.world.must("cuMemPoolCreate", code)
        return pool

    def default(self, device: int | None = None) -> int:
        """cuDeviceGetDefaultMemPool."""
        pool = c_void_p()
        ordinal = self.world.device if device is None else device
        self.world.must("cuDeviceGetDefaultMemPool", self.driver.cuDeviceGetDefaultMemPool(byref(pool), ordinal))
        return pool.value

    def current(self, device: int | None = None) -> int:
        """cuDeviceGetMemPool."""
        pool = c_void_p()
        ordinal = self.world.device if device is None else device
        self.world.must("cuDeviceGetMemPool", self.driver.cuDeviceGetMemPool(byref(pool), ordinal))
        return pool.value

    # -- attributes ---------------------------------------------------------------------------------------------------

    def set(self, pool: int, attribute: int, value: int) -> int:
        """cuMemPoolSetAttribute, with the width the attribute has."""
        number = (c_int if attribute <= POOL_INTERNAL else c_uint64)(value)
        return self.driver.cuMemPoolSetAttribute(pool, attribute, byref(number))

    def get(self, pool: int, attribute: int) -> int:
        """cuMemPoolGetAttribute."""
        number = (c_int if attribute <= POOL_INTERNAL else c_uint64)(0)
        self.world.must("cuMemPoolGetAttribute", self.driver.cuMemPoolGetAttribute(pool, attribute, byref(number)))
        return number.value

    def held(self, pool: int) -> int:
        """RESERVED_MEM_CURRENT."""
        return self.get(pool, POOL_HELD)

    def used(self, pool: int) -> int:
        """USED_MEM_CURRENT."""
        return self.get(pool, POOL_USED)

    # -- memory -------------------------------------------------------------------------------------------------------

    def allocate(self, size: int, stream: int, pool: int | None = None) -> tuple[int, int]:
        """cuMemAllocFromPoolAsync, or cuMemAllocAsync if no pool is named."""
        address = c_uint64(0)
        if pool is None:
            code = self.driver.cuMemAllocAsync(byref(address), size, stream)
        else:
            code = self.driver.cuMemAllocFromPoolAsync(byref(address), size, pool, stream)
        if code == 0 and address.value:
            self.allocations.append(address.value)
        return code, address.value

    def new(self, size: int, stream: int, pool: int | None = None) -> int:
        """Memory of a pool."""
        code, address = self.allocate(size, stream, pool)
        self.world.must("cuMemAllocAsync", code)
        return address

    def free(self, address: int, stream: int) -> int:
        """cuMemFreeAsync."""
        code = self.driver.cuMemFreeAsync(address, stream)
        if code == 0 and address in self.allocations:
            self.allocations.remove(address)
        return code

    def free_now(self, address: int) -> int:
        """cuMemFree."""
        code = self.driver.cuMemFree(address)
        if code == 0:
            self.allocations.remove(address)
        return code

    def new_free(self, size: int, stream: int, pool: int) -> int:
        """Memory that was allocated and freed in the stream: its address."""
        address = self.new(size, stream, pool)
        self.world.must("cuMemFreeAsync", self.free(address, stream))
        return address

    # -- other processes ----------------------------------------------------------------------------------------------

    def export(self, pool: int, handle_type: int = HANDLE_POSIX_FD, flags: int = 0) -> tuple[int, int]:
        """The answer and a new file descriptor, which the caller closes."""
        fd = c_int(-1)
        code = self.driver.cuMemPoolExportToShareableHandle(byref(fd), pool, handle_type, flags)
        return code, fd.value

    def import_fd(self, fd: int) -> tuple[int, int]:
        """The answer and the pool. The descriptor goes by value and is closed here."""
        pool = c_void_p()
        code = self.driver.cuMemPoolImportFromShareableHandle(byref(pool), fd, HANDLE_POSIX_FD, 0)
        os.close(fd)
        if code == 0:
            self.pools.append(pool.value)
        return code, pool.value

    def export_pointer(self, address: int) -> tuple[int, bytes]:
        """The answer and 64 bytes for another process."""
        data = MemPoolPtrExportData()
        code = self.driver.cuMemPoolExportPointer(byref(data), address)
        return code, bytes(data.reserved)

    def import_pointer(self, pool: int, data: bytes) -> tuple[int, int]:
        """The answer and the address here."""
        address = c_uint64(0)
        exported = MemPoolPtrExportData.from_buffer_copy(data)
        code = self.driver.cuMemPoolImportPointer(byref(address), pool, byref(exported))
        if code == 0:
            self.allocations.append(address.value)
        return code, address.value

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Frees and destroys what is left, and lets default pools give back what they hold."""
        world = self.world
        world.must("cuCtxSynchronize", self.driver.cuCtxSynchronize())
        for address in list(self.allocations):
            world.must("cuMemFree", self.free_now(address))
        for pool in list(self.pools):
            world.must("cuMemPoolDestroy", self.destroy(pool))
        world.must("cuCtxSynchronize", self.driver.cuCtxSynchronize())
