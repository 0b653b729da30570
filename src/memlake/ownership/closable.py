"""Objects that are closed, or otherwise ended, when a ``with`` or an ``async with`` block ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["Closable", "Scoped"]


class Scoped:
    """A context manager that calls `_end_block` when its block ends.

    At the end of an ``async with`` block a thread calls it, because it may wait for a device, and the event loop must
    not.
    """

    # No slots, and no abstract base class: native classes derive from it as well, with a metaclass of their own.
    __slots__ = ()

    if TYPE_CHECKING:

        def _end_block(self, error: BaseException | None) -> None:
            """Runs at the end of the block; `error` is the exception that leaves the block, if any."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end_block(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.__exit__, kind, error, traceback)


class Closable(Scoped):
    """A context manager that closes the object, unless it was closed before."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def is_open(self) -> bool: ...
        def close(self) -> None: ...

    def _end_block(self, error: BaseException | None) -> None:
        if self.is_open:
            self.close()
