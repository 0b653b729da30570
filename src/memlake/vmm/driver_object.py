"""Objects of the driver: what chunks, reservations and mappings have in common."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from memlake.errors import ClosedError
from memlake.ownership.factory_made import FactoryMade

__all__ = ["DriverObject"]


class _Owner(Protocol):
    @property
    def is_open(self) -> bool: ...


Owner = TypeVar("Owner", bound=_Owner)


class DriverObject(FactoryMade, Generic[Owner]):
    """An object whose owner in the core makes and undoes one driver call."""

    __slots__ = ()

    _core: Owner

    @property
    def _open(self) -> Owner:
        """The owner in the core. Raises ClosedError if the object is closed."""
        if not self._core.is_open:
            raise ClosedError(f"{self!r} is closed")
        return self._core
