"""Shared buffers: a `SharedBuffer` maps memory that another process exported."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, NoReturn
from uuid import UUID

from memlake import _native
from memlake.device.device import Device, devices, open_core
from memlake.device.memory import Memory
from memlake.device.piece import Piece
from memlake.emulator.emulated_device import emulated_devices
from memlake.errors import ClosedError, ConfigError, DriverError, InvalidFree
from memlake.ownership.factory_made import FactoryMade
from memlake.ownership.views import LiveViews
from memlake.units import Size, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typing_extensions import Self

    from memlake.device.host_buffer import HostBufferLike
    from memlake.device.stream import StreamLike
    from memlake.sharing.layout import Layout

__all__ = ["SharedBuffer", "open_share"]

_INVALID_DEVICE = 101


class SharedBuffer(Memory, FactoryMade):
    """Memory that another process exported, as one contiguous range of device addresses. `Share.open` returns it.

    All processes see the same bytes: a write is visible to the others when the work that writes has finished. The
    memory stays when the exporter closes its buffer, exits or is killed.
    """

    __slots__ = ("__weakref__", "_core", "_homes", "_is_read_only", "_live_views", "_nbytes", "_user")
    _made_by = "share.open()"

    _core: _native.ImportedMemory
    _nbytes: int
    _homes: tuple[tuple[Device, int], ...]  # (device, bytes) in order; adjacent memory on one device is one entry
    _user: Device
    _is_read_only: bool
    _live_views: LiveViews

    @classmethod
    def _make(
        cls,
        core: _native.ImportedMemory,
        nbytes: int,
        homes: tuple[tuple[Device, int], ...],
        users: Sequence[Device],
        is_read_only: bool,
    ) -> Self:
        buffer = object.__new__(cls)
        buffer._core = core
        buffer._nbytes = nbytes
        buffer._homes = homes
        buffer._user = homes[0][0] if homes[0][0] in users else users[0]
        buffer._is_read_only = is_read_only
        buffer._live_views = LiveViews()
        return buffer

    @property
    def ptr(self) -> int:
        """The device address of the first byte, in this process."""
        self._require_open()
        return self._core.address

    @property
    def address(self) -> int:
        """The device address of the first byte; `ptr` by the name that all memory has."""
        return self.ptr

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self._nbytes

    @property
    def device(self) -> Device:
        """The device whose default stream is used when no stream is given.

        That is the device of the first byte if the share was opened for it, else the first device of `Share.open`.
        """
        return self._user

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces of the buffer by offset. Adjacent memory on one device is one piece."""
        ends = accumulate(nbytes for _, nbytes in self._homes)
        return tuple(
            Piece(device, end - nbytes, nbytes) for (device, nbytes), end in zip(self._homes, ends, strict=True)
        )

    @property
    def is_read_only(self) -> bool:
        """True if the share was opened with ``read_only=True``."""
        return self._is_read_only

    @property
    def is_open(self) -> bool:
        """False after close()."""
        return self._core.is_open

    def fill(self, value: int, *, offset: Size = 0, nbytes: Size | None = None, stream: StreamLike = None) -> None:
        """See `Memory.fill`. Raises ConfigError if the buffer is read-only."""
        self._require_writable()
        super().fill(value, offset=offset, nbytes=nbytes, stream=stream)

    def copy_from(self, source: Memory | HostBufferLike, *, offset: Size = 0, stream: StreamLike = None) -> None:
        """See `Memory.copy_from`. Raises ConfigError if the buffer is read-only."""
        self._require_writable()
        super().copy_from(source, offset=offset, stream=stream)

    def close(self) -> None:
        """Waits for the devices that may use the memory, then unmaps it here. Other processes keep it.

        Raises:
            InvalidFree: if the buffer is already closed.
            BufferError: while a NumPy view of the buffer is alive. Nothing was changed.
        """
        if not self.is_open:
            raise InvalidFree(f"{self!r} was closed before")
        self._live_views.refuse(f"close {self!r}")
        self._core.close()

    def _require_open(self) -> None:
        if not self.is_open:
            raise ClosedError(f"{self!r} is closed")

    def _require_writable(self) -> None:
        if self._is_read_only:
            raise ConfigError(f"{self!r} was opened read-only; open the share again without read_only=True to write")

    @property
    def _views(self) -> LiveViews:
        return self._live_views

    @contextmanager
    def _driver_calls(self) -> Iterator[None]:
        self._require_open()
        yield

    def _viewed_devices(self) -> set[Device]:
        return {device for device, _ in self._homes}

    def _boundaries(self) -> list[int]:
        return [piece.offset for piece in self.pieces[1:]]

    def _host_rights(self) -> str:
        return "r" if self._is_read_only else "rw"

    def __enter__(self) -> Self:
        self._require_open()
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SharedBuffer is a range of this process; send the Share to another one, not the buffer")

    def __repr__(self) -> str:
        if not self.is_open:
            return f"SharedBuffer({format_bytes(self.nbytes)}, closed)"
        rights = ", read-only" if self._is_read_only else ""
        return f"SharedBuffer({format_bytes(self.nbytes)} at {self.ptr:#x}{rights})"


def open_share(
    layout: Layout, descriptors: Sequence[int], device: Device | Sequence[Device] | None, *, read_only: bool
) -> SharedBuffer:
    """Opens a share; see `Share.open`."""
    users = _users(device)
    there_are = _devices_by_uuid(layout, users)
    homes = [_home(UUID(bytes=uuid), there_are, layout, users) for uuid in layout.uuids]
    if not users:
        numbers = {run.device for run in layout.runs}
        users = [home for number, home in enumerate(homes) if number in numbers]
    chunks = layout.chunks()
    core = _native.ImportedMemory(
        list(descriptors),
        [nbytes for nbytes, _ in chunks],
        [open_core(homes[number]) for _, number in chunks],
        [open_core(user) for user in users],
        bool(read_only),
    )
    return SharedBuffer._make(core, layout.nbytes, _homes_in_order(layout, homes), users, bool(read_only))


def _users(device: Device | Sequence[Device] | None) -> list[Device]:
    if device is None:
        return []
    users = list(device) if isinstance(device, Sequence) else [device]
    if not users:
        raise ConfigError("no device is named that could use the memory; leave it out for those that it lies on")
    cores = [open_core(user) for user in users]
    if any(core.driver.library != cores[0].driver.library for core in cores):
        raise ConfigError("the devices belong to different drivers; memory cannot be shared between those")
    return users


def _home(uuid: UUID, there_are: Mapping[str, Device], layout: Layout, users: Sequence[Device]) -> Device:
    """Returns the device of this process with the UUID, else the first of `users`."""
    found = there_are.get(str(uuid))
    if found is not None:
        return found
    if users:
        return users[0]
    if layout.is_emulated:
        raise ConfigError(
            f"the memory is of an emulated device with the uuid {uuid}, which this process does not have; make the "
            "same devices as in the other process, in the same order (memlake.emulate), before the share is opened"
        )
    raise ConfigError(
        f"this process does not see the device with the uuid {uuid} that the memory lies on (CUDA_VISIBLE_DEVICES?); "
        "name a device that can reach it: share.open(device)"
    )


def _devices_by_uuid(layout: Layout, users: Sequence[Device]) -> dict[str, Device]:
    """Returns the devices of the driver that may have the memory, by UUID."""
    candidates = emulated_devices() if layout.is_emulated else devices(users[0]._core.driver.library if users else None)
    found = {}
    for device in candidates:
        try:
            found[device.uuid] = device
        except DriverError as error:
            if error.code != _INVALID_DEVICE:  # the device was closed through the driver
                raise
    return found


def _homes_in_order(layout: Layout, homes: Sequence[Device]) -> tuple[tuple[Device, int], ...]:
    """Returns, in order, each device and how many bytes of the buffer are on it."""
    found: list[tuple[Device, int]] = []
    left = layout.nbytes
    for run in layout.runs:
        nbytes = min(run.count * run.nbytes, left)
        left -= nbytes
        before = found.pop()[1] if found and found[-1][0] == homes[run.device] else 0
        found.append((homes[run.device], before + nbytes))
    return tuple((device, nbytes) for device, nbytes in found if nbytes)
