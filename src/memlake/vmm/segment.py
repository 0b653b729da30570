"""Segments: a `Segment` maps several chunks, of one or several devices, to one contiguous range."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING
from weakref import ref

from memlake import _native
from memlake.device.memory import Memory
from memlake.errors import ClosedError, ConfigError, DriverError, InvalidFree
from memlake.ownership.factory_made import FactoryMade
from memlake.ownership.views import LiveViews
from memlake.units import Size, format_bytes
from memlake.vmm.access import Devices, Rights, device_list, flags_of, rights_of, rights_of_anybody, same_driver
from memlake.vmm.chunk import Chunk, chunk_sizes, claim, create, hand_over, let_go

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from typing_extensions import Self

    from memlake.device.device import Device

__all__ = ["Segment", "stitch"]

_SUCCESS = "CUDA_SUCCESS"


def stitch(chunks: Iterable[Chunk], access: Devices | None = None) -> Segment:
    """Maps free chunks of one or several devices to one contiguous range, in the given order: all of them, or none.

    The segment uses the chunks until it is closed. It does not own them, and their other mappings stay.

    Args:
        chunks: free chunks, each once.
        access: the devices that may read and write the range. None: the devices of the chunks. (): no device.

    Raises:
        ConfigError: if a chunk has a user (the message names it), is given twice, or belongs to another driver.
    """
    return Segment._stitched(list(chunks), access)


class Segment(Memory, FactoryMade):
    """One contiguous range of addresses to which chunks are mapped, one after the other.

    `Segment.create` makes a segment with chunks of its own, `stitch` makes one from free chunks. A chunk of a segment
    is free or used; `take` and `give_back` change that. A dropped segment is unmapped, and its own chunks are released.
    """

    __slots__ = (
        "__weakref__",
        "_chunks",
        "_is_released",
        "_mappings",
        "_nbytes",
        "_reservation",
        "_status",
        "_users",
        "_views",
    )
    _made_by = "Segment.create() or memlake.vmm.stitch()"

    _views: LiveViews
    _chunks: tuple[Chunk, ...]
    _mappings: tuple[_native.Mapping, ...]  # one for each chunk, side by side
    _reservation: _native.Reservation  # shared by the parts of a segment that was split
    _users: frozenset[Device]  # the devices that ever got access; the driver knows their present rights
    _nbytes: int
    _status: str
    _is_released: bool

    @classmethod
    def create(
        cls,
        device: Device,
        nbytes: Size,
        *,
        chunk_size: Size | Sequence[Size] | None = None,
        access: Devices | None = None,
    ) -> Self:
        """Creates chunks on a device and maps them to one contiguous range: all of them, or none.

        Args:
            device: the device of the memory.
            nbytes: the size of the segment, a multiple of the granularity.
            chunk_size: the size of the chunks; the last one gets the rest. Or the sizes of all chunks as a sequence.
                None: the device's recommended granularity.
            access: the devices that may read and write the segment. None: `device`. (): no device.
        """
        chunks: list[Chunk] = []
        try:
            chunks.extend(create(device, size) for size in chunk_sizes(device, nbytes, chunk_size))
            segment = cls._stitched(chunks, access)
        except BaseException:
            # Closed here, because the traceback of the exception would keep the chunks alive. A chunk that cannot be
            # released now is released when it is dropped.
            for chunk in chunks:
                with suppress(DriverError):
                    chunk.close()
            raise
        let_go(chunks, segment)
        for chunk in chunks:
            chunk._home = ref(segment)
        return segment

    @classmethod
    def _stitched(cls, chunks: list[Chunk], access: Devices | None) -> Self:
        segment = cls._empty()
        claim(chunks, segment)
        try:
            if not chunks:
                raise ConfigError("a segment needs at least one chunk")
            owners = list(dict.fromkeys(chunk.device for chunk in chunks))
            home = owners[0]
            same_driver(home, owners)
            users = device_list(access) if access is not None else owners
            cores = same_driver(home, users)
            reservation, mappings = _native.stitch(home._open, [chunk._core for chunk in chunks], cores)
        except BaseException:
            let_go(chunks, segment)
            raise
        return segment._fill_in(chunks, mappings, reservation, frozenset(users))

    @classmethod
    def _empty(cls) -> Self:
        segment = object.__new__(cls)
        segment._views = LiveViews()
        segment._chunks = ()
        segment._mappings = ()
        segment._nbytes = 0
        segment._status = _SUCCESS
        segment._is_released = False
        return segment

    def _fill_in(
        self,
        chunks: Iterable[Chunk],
        mappings: Iterable[_native.Mapping],
        reservation: _native.Reservation,
        users: frozenset[Device],
    ) -> Self:
        self._chunks = tuple(chunks)
        self._mappings = tuple(mappings)
        self._nbytes = sum(chunk.nbytes for chunk in self._chunks)
        self._reservation = reservation
        self._users = users
        return self

    # chunks and properties ------------------------------------------------------------------------------------------

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks by address. A chunk has a size, a device, and a user unless it is free."""
        return self._chunks

    @property
    def address(self) -> int:
        """The address of the first byte."""
        self._require_open()
        return self._mappings[0].address

    @property
    def nbytes(self) -> int:
        """The size in bytes; 0 after the segment was released."""
        return self._nbytes

    @property
    def device(self) -> Device:
        """The device of the first chunk."""
        self._require_open()
        return self._chunks[0].device

    @property
    def devices(self) -> list[Device]:
        """The devices of the chunks, each once."""
        return list(dict.fromkeys(chunk.device for chunk in self._chunks))

    @property
    def granularity(self) -> int:
        """The largest granularity of its devices. Chunk sizes are multiples of it."""
        self._require_open()
        return max(device.granularity for device in self.devices)

    @property
    def status(self) -> str:
        """The result of the last driver call for this segment by CUDA's name, for instance ``"CUDA_SUCCESS"``."""
        return self._status

    @property
    def free_chunks(self) -> int:
        """How many of its chunks are free."""
        return sum(chunk.is_free for chunk in self._chunks)

    @property
    def used_chunks(self) -> int:
        """How many of its chunks have a user."""
        return len(self._chunks) - self.free_chunks

    @property
    def is_fused(self) -> bool:
        """True if the segment was stitched from chunks that it does not own."""
        return any(chunk.home is not self for chunk in self._chunks)

    @property
    def is_open(self) -> bool:
        """False after the segment was closed, split or merged."""
        return not self._is_released

    @property
    def is_released(self) -> bool:
        """True after the segment was closed, split or merged."""
        return self._is_released

    def offset_of(self, chunk: Chunk) -> int:
        """Returns the offset of a chunk in this segment."""
        self._require_open()
        for candidate, end in zip(self._chunks, accumulate(chunk.nbytes for chunk in self._chunks), strict=True):
            if candidate is chunk:
                return end - chunk.nbytes
        raise ConfigError(f"{chunk!r} is not in {self!r}")

    # free and used -----------------------------------------------------------------------------------------------

    def take(self, *chunks: Chunk | int) -> list[Chunk]:
        """Makes this segment the user of free chunks: of all of them, or of none.

        Args:
            chunks: chunks of this segment, or their indexes.

        Raises:
            ConfigError: if a chunk already has a user. The message names it.
        """
        taken = self._find(chunks)
        claim(taken, self)
        return taken

    def give_back(self, *chunks: Chunk | int) -> None:
        """Makes chunks free again that `take` took: all of them, or none.

        Raises:
            InvalidFree: if this segment does not use a chunk, or does not own it. A stitched segment uses its chunks
                until it is closed.
        """
        given = self._find(chunks)
        for chunk in given:
            if chunk.user is not self:
                state = "is free" if chunk.is_free else f"is used by {chunk.user!r}"
                raise InvalidFree(f"cannot give back {chunk!r}: it {state}")
            if chunk.home is not self:
                raise InvalidFree(
                    f"cannot give back {chunk!r}: {self!r} is stitched from it and uses it until it is closed"
                )
        let_go(given, self)

    def _find(self, chunks: Iterable[Chunk | int]) -> list[Chunk]:
        self._require_open()
        own = frozenset(self._chunks)
        found = []
        for chunk in chunks:
            if isinstance(chunk, int):
                if not -len(self._chunks) <= chunk < len(self._chunks):
                    raise ConfigError(f"{self!r} has no chunk {chunk}; it has {len(self._chunks)}")
                found.append(self._chunks[chunk])
            else:
                if not isinstance(chunk, Chunk) or chunk not in own:
                    raise ConfigError(f"{chunk!r} is not in {self!r}")
                found.append(chunk)
        return found

    # access ------------------------------------------------------------------------------------------------------

    def access(self, device: Device) -> Rights:
        """Returns the access rights of a device in the whole segment."""
        with self._driver_calls():
            (user,) = same_driver(self.device, device_list(device))
            flags = flags_of("rw")
            for mapping in self._mappings:
                flags &= self.device._open.get_access(mapping.address, user)
            return rights_of(flags)

    def set_access(self, devices: Devices, rights: Rights) -> None:
        """Sets the access rights of devices in the whole segment with one driver call: ``"rw"``, ``"r"`` or ``"none"``.

        Raises:
            BufferError: for less than ``"rw"`` while a NumPy view is alive. Nothing was changed.
        """
        flags = flags_of(rights)
        with self._driver_calls():
            users = device_list(devices)
            cores = same_driver(self.device, users)
            if rights != "rw":
                self._views.refuse(f"lower access to {self!r}")
            self.device._open.set_access(self.address, self.nbytes, cores, flags)
            self._users = self._users.union(users)

    # splitting, merging, closing -----------------------------------------------------------------------------------

    def split(self, at: Size) -> tuple[Segment, Segment]:
        """Splits the segment in two at a boundary between chunks. Addresses and contents stay; no driver call is made.

        This object is released. The two parts share the reservation, which is released with the last part.

        Args:
            at: the size of the first part in bytes.

        Raises:
            BufferError: while a NumPy view is alive. Nothing was changed.
            ConfigError: if no chunk ends there.
        """
        from memlake.vmm.rearranging import split

        return split(self, at)

    def merge(self, other: Segment) -> Segment:
        """Merges two segments into one and keeps their contents. Both objects are released. On failure nothing changes.

        Neighbours in one reservation are merged in place, without a driver call. Other segments are mapped to a new
        range: the same chunks, this segment's first, with the same access rights.

        Raises:
            BufferError: while a NumPy view of one of them is alive. Nothing was changed.
            ContractViolation: on the emulator, while queued work uses one of them. Nothing was changed.
        """
        from memlake.vmm.rearranging import merge

        return merge(self, other)

    def close(self) -> None:
        """Unmaps the segment, releases its own chunks, and makes its other chunks free.

        The addresses are released with the last part of a segment that was split.

        Raises:
            BufferError: while a NumPy view is alive. Nothing was changed.
            ContractViolation: on the emulator, while queued work uses the segment. Nothing was changed.
            InvalidFree: if it is already released, or another segment uses one of its own chunks. Nothing was changed.
        """
        if self._is_released:
            raise InvalidFree(f"{self!r} was released before")
        self._views.refuse(f"close {self!r}")
        own = [chunk for chunk in self._chunks if chunk.home is self]
        for chunk in own:
            if chunk.user not in (None, self):
                raise InvalidFree(f"cannot close {self!r}: its {chunk!r} is used by {chunk.user!r}; close that first")
        with self._driver_calls():
            _native.unmap(self._mappings)
        hand_over(self._chunks, self, None)
        undo = [chunk._core.close for chunk in own]
        if self._reservation.mapping_count() == 0:
            undo.append(self._reservation.close)
        self._release()
        _run_all(undo)

    def __repr__(self) -> str:
        if self._is_released:
            return "Segment(released)"
        if not self._mappings:
            return "Segment(being made)"  # another thread has claimed its chunks and is calling the driver
        where = "+".join(str(device.ordinal) for device in self.devices)
        fused = ", fused" if self.is_fused else ""
        size, count = format_bytes(self.nbytes), len(self._chunks)
        return f"Segment({size} at {self._mappings[0].address:#x}, {count} chunks of device {where}{fused})"

    def _release(self) -> None:
        """Clears the object. The caller has released, or keeps, what the segment owned."""
        self._is_released = True
        self._chunks = ()
        self._mappings = ()
        self._nbytes = 0
        del self._reservation

    def _require_open(self) -> None:
        if self._is_released:
            raise ClosedError("this segment was closed, split or merged; its memory is no longer its own")

    @contextmanager
    def _driver_calls(self) -> Iterator[None]:
        self._require_open()
        try:
            yield
        except DriverError as error:
            self._status = error.name
            raise
        self._status = _SUCCESS

    def _viewed_devices(self) -> set[Device]:
        return set(self.devices)

    def _boundaries(self) -> list[int]:
        return [
            right_mapping.address - self.address
            for (_, left), (right_mapping, right) in pairwise(zip(self._mappings, self._chunks, strict=True))
            if left.device != right.device
        ]

    def _host_rights(self) -> Rights:
        return rights_of_anybody((mapping.address for mapping in self._mappings), self._users)


def _run_all(steps: Iterable[Callable[[], None]]) -> None:
    """Runs all steps, even if one fails, and then raises the first error."""
    errors = []
    for step in steps:
        try:
            step()
        except DriverError as error:
            errors.append(error)
    if errors:
        raise errors[0]
