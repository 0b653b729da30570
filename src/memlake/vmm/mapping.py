"""Mappings: a `Mapping` makes one chunk visible at one address range."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from memlake import _native
from memlake.device.memory import Memory
from memlake.errors import InvalidFree
from memlake.ownership.views import LiveViews
from memlake.units import format_bytes
from memlake.vmm.access import Devices, Rights, device_list, flags_of, rights_of, rights_of_anybody, same_driver
from memlake.vmm.driver_object import DriverObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    from memlake.device.device import Device
    from memlake.vmm.chunk import Chunk
    from memlake.vmm.reservation import Reservation

__all__ = ["Mapping"]


class Mapping(Memory, DriverObject[_native.Mapping]):
    """One chunk, mapped to a part of a reservation. `Reservation.map` makes one.

    A mapping keeps its chunk and its reservation alive. A dropped mapping is unmapped.
    """

    __slots__ = ("__weakref__", "_chunk", "_core", "_offset", "_reservation", "_users", "_views")
    _made_by = "reservation.map(chunk)"

    _views: LiveViews
    _reservation: Reservation
    _chunk: Chunk
    _offset: int
    _users: set[Device]  # the devices that ever got access here; the driver knows their present rights

    @classmethod
    def _make(cls, core: _native.Mapping, reservation: Reservation, chunk: Chunk, offset: int) -> Self:
        mapping = object.__new__(cls)
        mapping._views = LiveViews()
        mapping._core = core
        mapping._reservation = reservation
        mapping._chunk = chunk
        mapping._offset = offset
        mapping._users = set()
        return mapping

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return self._open.address

    @property
    def nbytes(self) -> int:
        """The number of mapped bytes of the chunk."""
        return self._core.nbytes

    @property
    def device(self) -> Device:
        """The device of the chunk."""
        return self._chunk.device

    @property
    def chunk(self) -> Chunk:
        """The mapped chunk."""
        return self._chunk

    @property
    def reservation(self) -> Reservation:
        """The reservation that the chunk is mapped to."""
        return self._reservation

    @property
    def offset(self) -> int:
        """The offset in the reservation."""
        return self._offset

    @property
    def is_open(self) -> bool:
        """False after the chunk was unmapped."""
        return self._core.is_open

    def access(self, device: Device) -> Rights:
        """Returns the access rights of a device at this mapping."""
        (user,) = same_driver(self.device, device_list(device))
        return rights_of(self.device._open.get_access(self.address, user))

    def set_access(self, devices: Devices, rights: Rights) -> None:
        """Sets the access rights of devices at this mapping: ``"rw"``, ``"r"`` or ``"none"``.

        Raises:
            BufferError: for less than ``"rw"`` while a NumPy view is alive. Nothing was changed.
        """
        flags = flags_of(rights)
        users = device_list(devices)
        cores = same_driver(self.device, users)
        if rights != "rw":
            self._views.refuse(f"lower access to {self!r}")
        if users:
            self.device._open.set_access(self.address, self.nbytes, cores, flags)
            self._users.update(users)

    def close(self) -> None:
        """Unmaps the chunk.

        Raises:
            BufferError: while a NumPy view of the mapping is alive. Nothing was changed.
            ContractViolation: on the emulator, while queued work uses the mapping. Nothing was changed.
            InvalidFree: if the chunk is already unmapped.
        """
        if not self.is_open:
            raise InvalidFree(f"{self!r} was unmapped before")
        self._views.refuse(f"unmap {self!r}")
        self._core.close()

    def __repr__(self) -> str:
        place = f"{self._core.address:#x}" if self.is_open else "closed"
        return f"Mapping({format_bytes(self.nbytes)} of device {self.device.ordinal}, {place})"

    @contextmanager
    def _driver_calls(self) -> Iterator[None]:
        self._open  # noqa: B018  raises if it is closed
        yield

    def _viewed_devices(self) -> set[Device]:
        return {self.device}

    def _host_rights(self) -> Rights:
        return rights_of_anybody([self.address], self._users)
