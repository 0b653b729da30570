"""Reservations: addresses without memory."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from memlake import _native
from memlake.device.device import open_core
from memlake.errors import ClosedError, ConfigError, InvalidFree
from memlake.ownership.closable import Closable
from memlake.ownership.factory_made import FactoryMade
from memlake.units import Size, format_bytes, parse_bytes
from memlake.vmm.access import Devices, Rights, device_list, flags_of, rights_of, same_driver
from memlake.vmm.chunk import Chunk
from memlake.vmm.mapping import Mapping

if TYPE_CHECKING:
    from typing_extensions import Self

    from memlake.device.device import Device

__all__ = ["Reservation", "reserve"]


def reserve(device: Device, nbytes: Size, *, alignment: Size = 0, address: int = 0) -> Reservation:
    """Reserves a range of addresses (``cuMemAddressReserve``). Nothing is behind it yet, and it costs no memory.

    Args:
        device: a device of the driver that gives the addresses; memory of others can be mapped, too.
        nbytes: how many; a multiple of the granularity, else nothing can be mapped at the end.
        alignment: a power of two, or 0 for what mappings need.
        address: where it would be welcome; the driver may give another place.

    Raises:
        DriverError: as the driver answers. `kind` is ``"address_exhaustion"`` if it cannot be had.
    """
    place = parse_bytes(address, what="address")
    size, multiple = parse_bytes(nbytes, what="nbytes"), parse_bytes(alignment, what="alignment")
    return Reservation._make(device, _native.Reservation(open_core(device), size, multiple, place))


class Reservation(Closable, FactoryMade):
    """A range of addresses with nothing behind it until chunks are mapped. Make one with `reserve`.

    Leaving a ``with`` block unmaps what is mapped in it and gives the addresses back. A reservation that is dropped
    lives until its last mapping is gone.
    """

    __slots__ = ("__weakref__", "_core", "_device", "_mappings")
    _made_by = "memlake.vmm.reserve()"

    _core: _native.Reservation
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
        """How many addresses there are."""
        return self._core.nbytes

    @property
    def device(self) -> Device:
        """The device it was reserved with."""
        return self._device

    @property
    def is_open(self) -> bool:
        """False once the addresses were given back."""
        return self._core.is_open

    @property
    def mappings(self) -> list[Mapping]:
        """What is mapped in it, in the order of addresses."""
        return sorted((mapping for mapping in self._mappings if mapping.is_open), key=lambda mapping: mapping.offset)

    def map(
        self, chunk: Chunk, offset: Size = 0, *, nbytes: Size | None = None, access: Devices | None = None
    ) -> Mapping:
        """Makes a chunk visible here. The same chunk may be mapped at many places; all show the same bytes.

        Args:
            chunk: what to map.
            offset: where in this reservation; a multiple of the granularity.
            nbytes: how much of the chunk, from its beginning; None: all.
            access: devices that may read and write here. None: nobody may, as in CUDA, until `set_access`.
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
        """Unmaps every mapping in a range, all or none. The range must not cut a mapping and must have no holes.

        Args:
            offset: where the range begins.
            nbytes: its size; None: to the end of the reservation.
        """
        start, count = self._part(offset, nbytes)
        inside = self._whole_mappings(start, start + count)
        for mapping in inside:
            mapping._views.refuse(f"unmap {mapping!r}")
        _native.unmap([mapping._core for mapping in inside])

    def access(self, device: Device, offset: Size = 0) -> Rights:
        """What a device may do at a place of this reservation that is mapped."""
        start, _ = self._part(offset, 0)
        (user,) = same_driver(self._device, device_list(device))
        return rights_of(self._device._open.get_access(self.address + start, user))

    def set_access(self, devices: Devices, rights: Rights, *, offset: Size = 0, nbytes: Size | None = None) -> None:
        """Sets what devices may do in a range, with one driver call for all mappings in it.

        Args:
            devices: one or several.
            rights: ``"rw"``, ``"r"`` or ``"none"``.
            offset: where the range begins.
            nbytes: its size; None: to the end of the reservation. All of it must be mapped.

        Raises:
            BufferError: for less than ``"rw"`` while a NumPy view is alive in the range; nothing was changed.
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
        """Gives the addresses back.

        Raises:
            BufferError: while a NumPy view of a mapping in it is alive; nothing was changed.
            InvalidFree: if it is closed already, or something is mapped in it.
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

    @property
    def _open(self) -> _native.Reservation:
        if not self.is_open:
            raise ClosedError(f"{self!r} is closed")
        return self._core

    def _part(self, offset: Size, nbytes: Size | None) -> tuple[int, int]:
        """Offset and size of a part of this range, as numbers; raises ConfigError if it is not inside."""
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
