"""Reservations: a `Reservation` is a range of addresses, without memory."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from memlake import _native
from memlake.device.device import open_core
from memlake.errors import ConfigError, InvalidFree
from memlake.ownership.closable import Closable
from memlake.units import Size, format_bytes, parse_bytes
from memlake.vmm.access import Devices, Rights, device_list, flags_of, rights_of, same_driver
from memlake.vmm.chunk import Chunk
from memlake.vmm.driver_object import DriverObject
from memlake.vmm.mapping import Mapping

if TYPE_CHECKING:
    from typing_extensions import Self

    from memlake.device.device import Device

__all__ = ["Reservation", "reserve"]


def reserve(device: Device, nbytes: Size, *, alignment: Size = 0, address: int = 0) -> Reservation:
    """Reserves a range of addresses (``cuMemAddressReserve``). A reservation takes no memory.

    Args:
        device: a device of the driver. Memory of the driver's other devices can be mapped as well.
        nbytes: the size of the range. If it is not a multiple of the granularity, its end cannot be mapped.
        alignment: a power of two, or 0 for the alignment that mappings need.
        address: the preferred address. The driver may choose another one.

    Raises:
        DriverError: if the driver refuses. `kind` is ``"address_exhaustion"`` if no such range is free.
    """
    place = parse_bytes(address, what="address")
    size, multiple = parse_bytes(nbytes, what="nbytes"), parse_bytes(alignment, what="alignment")
    return Reservation._make(device, _native.Reservation(open_core(device), size, multiple, place))


class Reservation(Closable, DriverObject[_native.Reservation]):
    """A range of addresses, to which chunks can be mapped. `reserve` makes one.

    The end of a ``with`` block closes its mappings and releases the addresses. A dropped reservation is released after
    its last mapping is closed.
    """

    __slots__ = ("__weakref__", "_core", "_device", "_mappings")
    _made_by = "memlake.vmm.reserve()"

    _device: Device
    _mappings: WeakSet[Mapping]

    @classmethod
    def _make(cls, device: Device, core: _native.Reservation) -> Self:
        reservation = object.__new__(cls)
        reservation._core = core
        reservation._device = device
        reservation._mappings = WeakSet()
        return reservation

    @property
    def address(self) -> int:
        """The first address."""
        return self._open.address

    @property
    def nbytes(self) -> int:
        """The size of the range in bytes."""
        return self._core.nbytes

    @property
    def device(self) -> Device:
        """The device that was given to `reserve`."""
        return self._device

    @property
    def is_open(self) -> bool:
        """False after close()."""
        return self._core.is_open

    @property
    def mappings(self) -> list[Mapping]:
        """The open mappings of this reservation by address."""
        return sorted((mapping for mapping in self._mappings if mapping.is_open), key=lambda mapping: mapping.offset)

    def map(
        self, chunk: Chunk, offset: Size = 0, *, nbytes: Size | None = None, access: Devices | None = None
    ) -> Mapping:
        """Maps a chunk. A chunk may be mapped at several addresses; all of them show the same bytes.

        Args:
            chunk: the chunk to map.
            offset: the offset in this reservation, a multiple of the granularity.
            nbytes: how many bytes of the chunk to map, from its start. None: all.
            access: the devices that may read and write the mapping. None: no device, as in CUDA, until `set_access`.
        """
        if not isinstance(chunk, Chunk):
            raise ConfigError(f"expected a memlake Chunk, got {type(chunk).__name__}")
        reservation, memory = self._open, chunk._open
        same_driver(self._device, [chunk.device])
        users = device_list(access) if access is not None else []
        same_driver(chunk.device, users)
        place, size = self._part(offset, chunk.nbytes if nbytes is None else nbytes)
        mapping = Mapping._make(_native.Mapping(reservation, place, memory, size), self, chunk, place)
        try:
            mapping.set_access(users, "rw")
        except BaseException:
            # Not left to the garbage collector: the exception's traceback would keep the mapping.
            mapping.close()
            raise
        self._mappings.add(mapping)
        return mapping

    def unmap(self, offset: Size = 0, nbytes: Size | None = None) -> None:
        """Unmaps all mappings in a range, or none of them. Whole mappings must fill the range without gaps.

        Args:
            offset: the start of the range.
            nbytes: the size of the range. None: up to the end of the reservation.
        """
        start, count = self._part(offset, nbytes)
        inside = self._whole_mappings(start, start + count)
        for mapping in inside:
            mapping._views.refuse(f"unmap {mapping!r}")
        _native.unmap([mapping._core for mapping in inside])

    def access(self, device: Device, offset: Size = 0) -> Rights:
        """Returns the access rights of a device at a mapped offset of this reservation."""
        start, _ = self._part(offset, 0)
        (user,) = same_driver(self._device, device_list(device))
        return rights_of(self._device._open.get_access(self.address + start, user))

    def set_access(self, devices: Devices, rights: Rights, *, offset: Size = 0, nbytes: Size | None = None) -> None:
        """Sets the access rights of devices in a range, with one driver call for all of its mappings.

        Args:
            devices: one device or several.
            rights: ``"rw"``, ``"r"`` or ``"none"``.
            offset: the start of the range.
            nbytes: the size of the range. None: up to the end of the reservation. The whole range must be mapped.

        Raises:
            BufferError: for less than ``"rw"`` while a NumPy view in the range is alive. Nothing was changed.
        """
        flags = flags_of(rights)
        users = device_list(devices)
        cores = same_driver(self._device, users)
        start, count = self._part(offset, nbytes)
        inside = self._mappings_in(start, start + count)
        if rights != "rw":
            for mapping in inside:
                mapping._views.refuse(f"lower access to {mapping!r}")
        self._device._open.set_access(self.address + start, count, cores, flags)
        for mapping in inside:
            mapping._users.update(users)

    def close(self) -> None:
        """Releases the addresses.

        Raises:
            BufferError: while a NumPy view of one of its mappings is alive. Nothing was changed.
            InvalidFree: if the reservation is already closed, or has mappings.
        """
        if not self.is_open:
            raise InvalidFree(f"{self!r} was closed before")
        for mapping in self.mappings:
            mapping._views.refuse(f"close {self!r}")
        self._core.close()

    def _end_block(self, error: BaseException | None) -> None:
        if self.is_open:
            for mapping in self.mappings:
                mapping.close()
            self.close()

    def __repr__(self) -> str:
        place = f"{self._core.address:#x}" if self.is_open else "closed"
        return f"Reservation({format_bytes(self.nbytes)}, {place})"

    def _part(self, offset: Size, nbytes: Size | None) -> tuple[int, int]:
        """Returns offset and size of a part of this range in bytes. Raises ConfigError if the part is not inside."""
        start = parse_bytes(offset, what="offset")
        count = max(self.nbytes - start, 0) if nbytes is None else parse_bytes(nbytes, what="nbytes")
        if start + count > self.nbytes:
            raise ConfigError(f"{format_bytes(count)} at offset {start} are not inside {self!r}")
        return start, count

    def _mappings_in(self, start: int, end: int) -> list[Mapping]:
        """The mappings that have at least a byte in [start, end)."""
        return [
            mapping for mapping in self.mappings if mapping.offset < end and start < mapping.offset + mapping.nbytes
        ]

    def _whole_mappings(self, start: int, end: int) -> list[Mapping]:
        """The mappings that fill [start, end) exactly; raises ConfigError if they do not."""
        inside = self._mappings_in(start, end)
        place = start
        for mapping in inside:
            if mapping.offset < place or mapping.offset + mapping.nbytes > end:
                raise ConfigError(f"the range cuts {mapping!r} at offset {mapping.offset}; only whole mappings can go")
            if mapping.offset > place:
                break
            place = mapping.offset + mapping.nbytes
        if place != end or not inside:
            raise ConfigError(f"nothing is mapped at offset {place} of {self!r}")
        return inside
