"""Queued work on emulated streams: launch it, hold it back, run it step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.device.device import Device
from memlake.device.memory import Memory
from memlake.device.stream import Stream
from memlake.emulator.emulated_device import require_emulated
from memlake.errors import ConfigError, InvalidFree
from memlake.ownership.closable import Scoped
from memlake.ownership.factory_made import FactoryMade
from memlake.units import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

__all__ = ["Gate", "hold", "launch", "pending", "step"]

Range = Memory | tuple[int, int]
"""Memory that work accesses: a `Memory` object, or (address, nbytes)."""


def launch(stream: Stream | Device, name: str, reads: Iterable[Range] = (), writes: Iterable[Range] = ()) -> None:
    """Queues work that stands for a kernel: it declares which memory it accesses and computes nothing.

    When the work runs, its device must have access to every range; else the context is lost (sticky error 700). Until
    the work has run, unmapping one of its ranges is a contract violation. The message contains `name`.

    Args:
        stream: the stream. A device stands for its default stream.
        name: the name of the work in messages.
        reads: the memory that the work reads, as memory objects or (address, nbytes).
        writes: the memory that the work writes, in the same form.
    """
    work = _emulated_stream(stream)
    ranges = [(*_place(touched), False) for touched in reads] + [(*_place(touched), True) for touched in writes]
    work._open_device().launch(work._handle, name, ranges)


def hold(stream: Stream | Device) -> Gate:
    """Queues a gate on a stream. Work queued later does not run until the gate is opened."""
    work = _emulated_stream(stream)
    return Gate._make(work, work._open_device().hold(work._handle))


def step(stream: Stream | Device, count: int = 1) -> int:
    """Runs up to `count` pieces of queued work of a stream (``streams="manual"``). Returns how many ran."""
    work = _emulated_stream(stream)
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ConfigError(f"count must be a whole number of at least 0, got {count!r}")
    return work._open_device().step(work._handle, count)


def pending(stream: Stream | Device) -> int:
    """Returns how many pieces of work of a stream have not finished."""
    work = _emulated_stream(stream)
    return work._open_device().pending(work._handle)


class Gate(Scoped, FactoryMade):
    """Holds a stream back until the gate is opened. The end of a ``with`` block opens it. `hold` makes a gate."""

    __slots__ = ("_gate", "_is_open", "_stream")
    _made_by = "memlake.emulator.hold(stream)"

    _stream: Stream
    _gate: int
    _is_open: bool

    @classmethod
    def _make(cls, stream: Stream, gate: int) -> Self:
        made = object.__new__(cls)
        made._stream = stream
        made._gate = gate
        made._is_open = False
        return made

    @property
    def stream(self) -> Stream:
        """The stream that the gate holds back."""
        return self._stream

    @property
    def is_open(self) -> bool:
        """True after the gate was opened."""
        return self._is_open

    def open(self) -> None:
        """Opens the gate, so that the stream continues.

        Raises:
            InvalidFree: if the gate was already opened.
        """
        if self._is_open:
            raise InvalidFree(f"{self!r} was opened before")
        self._stream.device._open.driver.open_gate(self._gate)
        self._is_open = True

    def _end_block(self, error: BaseException | None) -> None:
        # Closing a device drops its queued work, and the gate with it.
        if not self._is_open and self._stream.device._core.is_open:
            self.open()

    def __repr__(self) -> str:
        return f"Gate({self._stream!r}, {'open' if self._is_open else 'shut'})"


def _emulated_stream(stream: Stream | Device) -> Stream:
    if isinstance(stream, Device):
        stream = stream.default_stream
    if not isinstance(stream, Stream):
        raise ConfigError(
            f"expected a memlake Stream or Device, got {type(stream).__name__}; wrap a foreign stream with "
            "Stream.from_handle(handle, device=...)"
        )
    require_emulated(stream.device)
    return stream


def _place(touched: Range) -> tuple[int, int]:
    if isinstance(touched, Memory):
        return touched.address, touched.nbytes
    try:
        address, nbytes = touched
    except (TypeError, ValueError):
        raise ConfigError(f"expected memory or (address, nbytes), got {touched!r}") from None
    return parse_bytes(address, what="address"), parse_bytes(nbytes, what="nbytes")
