"""Segments: one contiguous range that shows many chunks, possibly of many devices."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from itertools import accumulate
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
    """Shows free chunks, of one device or several, as one contiguous range in the order given: all or nothing.

    The segment uses the chunks until it is closed; they stay their owner's, and visible wherever they are mapped.

    Args:
        chunks: free chunks, each once.
        access: devices that may read and write the range. None: the devices whose memory it shows. (): nobody yet.

    Raises:
        ConfigError: if a chunk is used (the message names its user), given twice, or of another driver.
    """
    return Segment._stitched(list(chunks), access)


class Segment(Memory, FactoryMade):
    """One contiguous range of addresses that shows one chunk after the other.

    Make one with its own chunks (`Segment.create`) or from others' free chunks (`stitch`). A chunk of a segment is free
    or used; `take` and `give_back` change that. A segment that is dropped is unmapped, and its own chunks go back.
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
    _users: frozenset[Device]  # who was ever given access; what they may do now, the driver knows
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
        """Takes memory from a device, in chunks, and shows it as one range: all or nothing.

        Args:
            device: whose memory.
            nbytes: how much; a multiple of the granularity.
            chunk_size: the size of every chunk but the last, which takes the rest; or all sizes as a sequence. None:
                the device's recommended granularity.
            access: devices that may read and write it. None: `device`. (): nobody yet.
        """
        chunks: list[Chunk] = []
        try:
            chunks.extend(create(device, size) for size in chunk_sizes(device, nbytes, chunk_size))
            segment = cls._stitched(chunks, access)
        except BaseException:
            # Not left to the garbage collector: the exception's traceback would keep the memory. What cannot go back
            # now is tried once more when it is dropped.
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

    # what it is made of ------------------------------------------------------------------------------------------

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """Its chunks, in the order of addresses. Each knows its size, its device, and whether it is free or used."""
        return self._chunks

    @property
    def address(self) -> int:
        """Where its first byte is."""
        self._require_open()
        return self._mappings[0].address

    @property
    def nbytes(self) -> int:
        """Its size; 0 once it is released."""
        return self._nbytes

    @property
    def device(self) -> Device:
        """The device of its first chunk."""
        self._require_open()
        return self._chunks[0].device

    @property
    def devices(self) -> list[Device]:
        """The devices of its chunks, each once."""
        return list(dict.fromkeys(chunk.device for chunk in self._chunks))

    @property
    def granularity(self) -> int:
        """The granule of its devices: chunks are multiples of it."""
        self._require_open()
        return max(device.granularity for device in self.devices)

    @property
    def status(self) -> str:
        """The result of the last driver call for this segment, by CUDA's name: ``"CUDA_SUCCESS"`` if all is well."""
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
        """True if it was stitched from chunks of others; they stay theirs when it is closed."""
        return any(chunk.home is not self for chunk in self._chunks)

    @property
    def is_open(self) -> bool:
        """False once it was closed, split, or merged with another."""
        return not self._is_released

    @property
    def is_released(self) -> bool:
        """True once it was closed, split, or merged with another."""
        return self._is_released

    def offset_of(self, chunk: Chunk) -> int:
        """Where in this segment a chunk begins."""
        self._require_open()
        for candidate, end in zip(self._chunks, accumulate(chunk.nbytes for chunk in self._chunks), strict=True):
            if candidate is chunk:
                return end - chunk.nbytes
        raise ConfigError(f"{chunk!r} is not in {self!r}")

    # free and used -----------------------------------------------------------------------------------------------

    def take(self, *chunks: Chunk | int) -> list[Chunk]:
        """Marks free chunks as used by this segment: all or none.

        Args:
            chunks: chunks of this segment, or their indexes.

        Raises:
            ConfigError: if one is used already; the message names its user.
        """
        taken = self._find(chunks)
        claim(taken, self)
        return taken

    def give_back(self, *chunks: Chunk | int) -> None:
        """Marks chunks that were taken as free again: all or none.

        Raises:
            InvalidFree: if one is not used by this segment, or is another's: a fused segment uses it until closed.
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
        """What a device may do in all of the segment."""
        with self._driver_calls():
            (user,) = same_driver(self.device, device_list(device))
            flags = flags_of("rw")
            for mapping in self._mappings:
                flags &= self.device._open.get_access(mapping.address, user)
            return rights_of(flags)

    def set_access(self, devices: Devices, rights: Rights) -> None:
        """Sets what devices may do in all of the segment, with one driver call: ``"rw"``, ``"r"`` or ``"none"``.

        Raises:
            BufferError: for less than ``"rw"`` while a NumPy view is alive; nothing was changed.
        """
        flags = flags_of(rights)
        with self._driver_calls():
            users = device_list(devices)
            cores = same_driver(self.device, users)
            if rights != "rw":
                self._views.refuse(f"lower access to {self!r}")
            self.device._open.set_access(self.address, self.nbytes, cores, flags)
            self._users = self._users.union(users)

    # cutting, joining, closing -----------------------------------------------------------------------------------

    def split(self, at: Size) -> tuple[Segment, Segment]:
        """Cuts the segment in two at a boundary between chunks. No driver call: addresses and contents stay.

        This object is released. The two parts share the reserved addresses, which go back with the last of them.

        Args:
            at: how many bytes the first part shall have.

        Raises:
            BufferError: while a NumPy view is alive; nothing was changed.
            ConfigError: if there is no boundary.
        """
        from memlake.vmm.rearranging import split

        return split(self, at)

    def merge(self, other: Segment) -> Segment:
        """Joins two segments into one, contents kept: all or nothing. Both objects are released.

        Neighbours in one reservation are joined as they lie, without a driver call. Others are moved into a new range:
        the same chunks, this segment's first, with the rights they had.

        Raises:
            BufferError: while a NumPy view of one of them is alive; nothing was changed.
            ContractViolation: on the emulator, while queued work uses one of them; nothing was changed.
        """
        from memlake.vmm.rearranging import merge

        return merge(self, other)

    def close(self) -> None:
        """Unmaps the segment. Its own chunks go back, others' become free; its addresses go back with its last part.

        Raises:
            BufferError: while a NumPy view is alive; nothing was changed.
            ContractViolation: on the emulator, while queued work uses the segment; nothing was changed.
            InvalidFree: if it is released already, or another segment uses one of its own chunks; nothing was changed.
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
            return "Segment(being made)"  # another thread has claimed chunks for it and asks the driver now
        where = "+".join(str(device.ordinal) for device in self.devices)
        fused = ", fused" if self.is_fused else ""
        size, count = format_bytes(self.nbytes), len(self._chunks)
        return f"Segment({size} at {self._mappings[0].address:#x}, {count} chunks of device {where}{fused})"

    def _release(self) -> None:
        """Lets go of everything; what goes back to the driver went back before."""
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

    def _host_rights(self) -> Rights:
        return rights_of_anybody((mapping.address for mapping in self._mappings), self._users)


def _run_all(steps: Iterable[Callable[[], None]]) -> None:
    """Runs every step, also after one failed, and then raises the first error."""
    errors = []
    for step in steps:
        try:
            step()
        except DriverError as error:
            errors.append(error)
    if errors:
        raise errors[0]
