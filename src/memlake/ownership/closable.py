"""What is closed when a ``with`` block ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["Closable"]


class Closable:
    """A context manager that closes the object, unless it was closed before."""

    # No slots, and nothing abstract: native classes, too, are among those that derive from it.
    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def is_open(self) -> bool: ...
        def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.is_open:
            self.close()
