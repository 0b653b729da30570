"""What one case lives in: devices with their primary contexts, the verbs of the contract's cases, and a clean end."""

from __future__ import annotations

import mmap
import threading
import time
from collections import Counter
from contextlib import contextmanager
from ctypes import byref, c_char, c_int, c_size_t, c_uint64, c_ulonglong, c_void_p
from typing import TYPE_CHECKING, Any

from helpers.abi_picture import left_in_ledger
from helpers.abi_types import (
    ACCESS_READ_WRITE,
    EVENT_DISABLE_TIMING,
    GRANULARITY_MINIMUM,
    GRANULARITY_RECOMMENDED,
    HANDLE_NONE,
    HANDLE_POSIX_FD,
    LOCATION_DEVICE,
    STREAM_NON_BLOCKING,
    HostFunction,
    MemAllocationProp,
    MemLocation,
    Result,
    access_descs,
    device_prop,
    result_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from helpers.abi_driver import Driver

PATIENCE_SECONDS = 60
"""How long a case waits for work that must finish, before it says that it never did."""


class StepFailedError(AssertionError):
    """A step that a case only builds on, and that every driver must do, did not succeed."""


class World:
    """Devices and everything a case makes on them.

    A verb returns the driver's answer (makers: the answer and what was made) and, when it succeeded, notes what now
    exists. `new_*` and `must` are for steps that are not the point of the case. `close` undoes what is left, newest
    kind first, and tells what did not go as it should.
    """

    def __init__(self, driver: Driver, devices: list[int]) -> None:
        self.driver = driver
        self.devices = devices
        self.device = devices[0]
        self.page = mmap.PAGESIZE
        self.retained: Counter[int] = Counter()
        self.contexts: dict[int, c_void_p] = {}
        for device in devices:
            self.must("cuDevicePrimaryCtxRetain", self.retain_context(device))
        self.use(self.device)
        self.count = driver.device_count()
        self.granularity = self.ask_granularity(GRANULARITY_MINIMUM)
        self.recommended = self.ask_granularity(GRANULARITY_RECOMMENDED)

        self.reservations: dict[int, int] = {}
        self.mappings: dict[int, tuple[int, int]] = {}
        self.references: Counter[int] = Counter()
        self.allocations: list[int] = []
        self.streams: list[tuple[int, int]] = []
        self.events: list[int] = []
        self._callbacks: list[Any] = []
        self.free_at_start = {device: self.free_memory(device) for device in devices}
        self._ledger_at_start = driver.ledger() if driver.is_emulated else None

    # -- setting up ---------------------------------------------------------------------------------------------------

    def must(self, what: str, code: int) -> None:
        """For a step that is not the point of the case."""
        if code != 0:
            explanation = self.driver.last_error()
            raise StepFailedError(f"{what} answered {result_name(code)}" + (f": {explanation}" if explanation else ""))

    def retain_context(self, device: int) -> int:
        """cuDevicePrimaryCtxRetain."""
        context = c_void_p()
        code = self.driver.cuDevicePrimaryCtxRetain(byref(context), device)
        if code == 0:
            self.retained[device] += 1
            self.contexts[device] = context
        return code

    def release_context(self, device: int) -> int:
        """cuDevicePrimaryCtxRelease."""
        code = self.driver.cuDevicePrimaryCtxRelease(device)
        if code == 0:
            self.retained[device] -= 1
        return code

    def use(self, device: int) -> None:
        """Makes the primary context of the device current in this thread."""
        self.must("cuCtxSetCurrent", self.driver.cuCtxSetCurrent(self.contexts[device]))

    def ask_granularity(self, option: int) -> int:
        """The granularity of plain memory on the first device."""
        granularity = c_size_t(0)
        prop = device_prop(self.device)
        code = self.driver.cuMemGetAllocationGranularity(byref(granularity), byref(prop), option)
        self.must("cuMemGetAllocationGranularity", code)
        return granularity.value

    # -- the verbs ----------------------------------------------------------------------------------------------------

    def reserve(self, size: int, alignment: int = 0, hint: int = 0, flags: int = 0) -> tuple[int, int]:
        """R: the answer and the address."""
        address = c_uint64(0)
        code = self.driver.cuMemAddressReserve(byref(address), size, alignment, hint, flags)
        if code == 0:
            self.reservations[address.value] = size
        return code, address.value

    def address_free(self, address: int, size: int) -> int:
        """F."""
        code = self.driver.cuMemAddressFree(address, size)
        if code == 0:
            self._forget(self.reservations, address, size)
            self._forget(self.mappings, address, size)
        return code

    def create(
        self,
        size: int,
        device: int | None = None,
        handle_types: int = HANDLE_NONE,
        prop: MemAllocationProp | None = None,
        flags: int = 0,
    ) -> tuple[int, int]:
        """C: the answer and the handle."""
        handle = c_uint64(0)
        if prop is None:
            prop = device_prop(self.device if device is None else device, handle_types)
        code = self.driver.cuMemCreate(byref(handle), size, byref(prop), flags)
        if code == 0:
            self.references[handle.value] += 1
        return code, handle.value

    def release(self, handle: int) -> int:
        """X."""
        code = self.driver.cuMemRelease(handle)
        if code == 0:
            self.references[handle] -= 1
        return code

    def retain(self, address: int) -> tuple[int, int]:
        """cuMemRetainAllocationHandle: the answer and the handle."""
        handle = c_uint64(0)
        code = self.driver.cuMemRetainAllocationHandle(byref(handle), address)
        if code == 0:
            self.references[handle.value] += 1
        return code, handle.value

    def map(self, address: int, size: int, handle: int, offset: int = 0, flags: int = 0) -> int:
        """M."""
        code = self.driver.cuMemMap(address, size, offset, handle, flags)
        if code == 0:
            self.mappings[address] = (size, handle)
        return code

    def unmap(self, address: int, size: int) -> int:
        """U."""
        code = self.driver.cuMemUnmap(address, size)
        if code == 0:
            self._forget(self.mappings, address, size)
        return code

    def access(self, address: int, size: int, flags: int = ACCESS_READ_WRITE, devices: list[int] | None = None) -> int:
        """A: the same rights for all the devices; for the first one if none is named."""
        descs = access_descs([self.device] if devices is None else devices, flags)
        return self.driver.cuMemSetAccess(address, size, descs, len(descs))

    def get_access(self, address: int, device: int | None = None) -> tuple[int, int]:
        """cuMemGetAccess: the answer and the flags."""
        flags = c_ulonglong(0)
        location = MemLocation(type=LOCATION_DEVICE, id=self.device if device is None else device)
        code = self.driver.cuMemGetAccess(byref(flags), byref(location), address)
        return code, flags.value

    def export(self, handle: int) -> tuple[int, int]:
        """The answer and a new file descriptor, which the caller closes."""
        fd = c_int(-1)
        code = self.driver.cuMemExportToShareableHandle(byref(fd), handle, HANDLE_POSIX_FD, 0)
        return code, fd.value

    def import_fd(self, fd: int) -> tuple[int, int]:
        """The answer and the handle. The descriptor goes by value, as CUDA takes it."""
        handle = c_uint64(0)
        code = self.driver.cuMemImportFromShareableHandle(byref(handle), fd, HANDLE_POSIX_FD)
        if code == 0:
            self.references[handle.value] += 1
        return code, handle.value

    def write(self, address: int, data: bytes) -> int:
        """cuMemcpyHtoD."""
        return self.driver.cuMemcpyHtoD(address, data, len(data))

    def read(self, address: int, size: int) -> tuple[int, bytes]:
        """cuMemcpyDtoH: the answer and the bytes."""
        buffer = (c_char * size)()
        code = self.driver.cuMemcpyDtoH(buffer, address, size)
        return code, buffer.raw

    def free_memory(self, device: int | None = None) -> int:
        """What cuMemGetInfo calls free, on the device whose context it makes current for the question."""
        free, total = c_size_t(0), c_size_t(0)
        self.use(self.device if device is None else device)
        code = self.driver.cuMemGetInfo(byref(free), byref(total))
        self.use(self.device)
        self.must("cuMemGetInfo", code)
        return free.value

    def address_range(self, address: int) -> tuple[int, int, int]:
        """cuMemGetAddressRange: the answer, the base and the size of the mapping."""
        base, size = c_uint64(0), c_size_t(0)
        code = self.driver.cuMemGetAddressRange(byref(base), byref(size), address)
        return code, base.value, size.value

    # -- steps that must succeed --------------------------------------------------------------------------------------

    def new_reservation(self, size: int, alignment: int = 0, hint: int = 0) -> int:
        """A reservation."""
        code, address = self.reserve(size, alignment, hint)
        self.must("cuMemAddressReserve", code)
        return address

    def new_chunk(self, size: int, device: int | None = None, handle_types: int = HANDLE_NONE) -> int:
        """A physical chunk."""
        code, handle = self.create(size, device, handle_types)
        self.must("cuMemCreate", code)
        return handle

    def new_mapping(self, size: int, access: int | None = ACCESS_READ_WRITE) -> tuple[int, int]:
        """A reservation filled by one chunk: address and handle. `access=None` sets no rights."""
        address = self.new_reservation(size)
        handle = self.new_chunk(size)
        self.must("cuMemMap", self.map(address, size, handle))
        if access is not None:
            self.must("cuMemSetAccess", self.access(address, size, access))
        return address, handle

    def neighbours(self) -> tuple[int, int, int] | None:
        """Two reservations, one ending where the other begins, and their size: as small as the driver's own alignment
        of reservations allows. None if no hint is honoured."""
        size = self.granularity
        while size <= 1 << 30:
            probe = self.new_reservation(2 * size)
            self.must("cuMemAddressFree", self.address_free(probe, 2 * size))
            low = self.new_reservation(size, hint=probe)
            high = self.new_reservation(size, hint=low + size)
            if high == low + size:
                return low, high, size
            self.must("cuMemAddressFree", self.address_free(low, size))
            self.must("cuMemAddressFree", self.address_free(high, size))
            size *= 2
        return None

    def new_allocation(self, size: int) -> int:
        """Plain memory of cuMemAlloc."""
        address = c_uint64(0)
        self.must("cuMemAlloc", self.driver.cuMemAlloc(byref(address), size))
        self.allocations.append(address.value)
        return address.value

    def free_allocation(self, address: int) -> int:
        """cuMemFree."""
        code = self.driver.cuMemFree(address)
        if code == 0 and address in self.allocations:
            self.allocations.remove(address)
        return code

    # -- streams ------------------------------------------------------------------------------------------------------

    def new_stream(self, flags: int = STREAM_NON_BLOCKING, device: int | None = None) -> int:
        """A stream of the device."""
        device = self.device if device is None else device
        stream = c_void_p()
        self.use(device)
        self.must("cuStreamCreate", self.driver.cuStreamCreate(byref(stream), flags))
        self.use(self.device)
        self.streams.append((stream.value, device))
        return stream.value

    def destroy_stream(self, stream: int) -> int:
        """cuStreamDestroy."""
        code = self.driver.cuStreamDestroy(stream)
        if code == 0:
            self.streams = [(handle, device) for handle, device in self.streams if handle != stream]
        return code

    def new_event(self, flags: int = EVENT_DISABLE_TIMING, device: int | None = None) -> int:
        """An event of the device."""
        event = c_void_p()
        self.use(self.device if device is None else device)
        self.must("cuEventCreate", self.driver.cuEventCreate(byref(event), flags))
        self.use(self.device)
        self.events.append(event.value)
        return event.value

    def run_on(self, stream: int, function: Callable[[], object]) -> None:
        """Queues a host function. Its ctypes wrapper lives as long as the world, so longer than the queue."""
        callback = HostFunction(lambda _: function())
        self._callbacks.append(callback)
        self.must("cuLaunchHostFunc", self.driver.cuLaunchHostFunc(stream, callback, None))

    @contextmanager
    def blocked(self, stream: int) -> Iterator[threading.Event]:
        """Holds the stream with a host function until the gate is set, at the latest when the block is left.

        Only one stream at a time: a real driver may run all host functions in one thread.
        """
        gate = threading.Event()
        self.run_on(stream, gate.wait)
        try:
            yield gate
        finally:
            gate.set()

    def outcome(self, query: Callable[[int], int], handle: int) -> int:
        """What cuStreamQuery or cuEventQuery answers once it is no longer NOT_READY, or NOT_READY if it stays so."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (code := query(handle)) == Result.NOT_READY and time.monotonic() < deadline:
            time.sleep(0.0005)
        return code

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self, expected_violations: int) -> list[str]:
        """Undoes everything; returns a sentence for each thing that was not as it should be."""
        driver = self.driver
        problems: list[str] = []

        def undo(what: str, code: int) -> None:
            if code != 0:
                problems.append(f"{what} answered {result_name(code)}: {driver.last_error()}")

        for device in (*self.devices[1:], self.device):
            undo("cuCtxSetCurrent", driver.cuCtxSetCurrent(self.contexts[device]))
            undo("cuCtxSynchronize", driver.cuCtxSynchronize())
        for event in self.events:
            undo("cuEventDestroy", driver.cuEventDestroy(event))
        for stream, _ in list(self.streams):
            undo("cuStreamDestroy", driver.cuStreamDestroy(stream))
        for address, (size, _) in list(self.mappings.items()):
            undo("cuMemUnmap", self.unmap(address, size))
        for address, size in list(self.reservations.items()):
            undo("cuMemAddressFree", self.address_free(address, size))
        for handle in list(self.references.elements()):
            undo("cuMemRelease", self.release(handle))
        for address in list(self.allocations):
            undo("cuMemFree", self.free_allocation(address))
        if not problems:  # after a sticky error the driver answers nothing any more
            problems += self._memory_not_returned()
        if driver.is_emulated:
            problems += left_in_ledger(self._ledger_at_start, driver.ledger(), expected_violations)
        driver.cuCtxSetCurrent(None)
        for device in list(self.retained.elements()):
            undo("cuDevicePrimaryCtxRelease", self.release_context(device))
        return problems

    def _memory_not_returned(self) -> list[str]:
        missing = {device: free - self.free_memory(device) for device, free in self.free_at_start.items()}
        return [
            f"device {device} has {size} bytes less than before the case" for device, size in missing.items() if size
        ]

    @staticmethod
    def _forget(table: dict[int, Any], address: int, size: int) -> None:
        for start in [start for start in table if address <= start < address + size]:
            del table[start]
