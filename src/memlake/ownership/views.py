"""Which NumPy views of an owner's memory are alive.

A view is an object with ``__array_interface__``; NumPy keeps it as the base of the array made from it, so every slice
of that array keeps it alive, and it keeps its memory alive. The owner only remembers its views weakly: when the last
array is gone, the view is gone, and nothing has to be counted down.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

__all__ = ["LiveViews", "MemoryView"]


class MemoryView:
    """Bytes at an address, for ``numpy.asarray``; keeps their owner alive."""

    __slots__ = ("__array_interface__", "__weakref__", "_owner")

    def __init__(self, owner: object, address: int, nbytes: int, *, is_read_only: bool) -> None:
        self._owner = owner
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, is_read_only),
        }


class LiveViews:
    """The views of one owner that are still alive."""

    __slots__ = ("_views",)

    def __init__(self) -> None:
        self._views: WeakSet[MemoryView] = WeakSet()

    def __len__(self) -> int:
        return len(self._views)

    def add(self, view: MemoryView) -> None:
        """Remembers a view for as long as it lives."""
        self._views.add(view)

    def refuse(self, action: str) -> None:
        """Raises BufferError if a view is alive.

        Args:
            action: what is refused, for instance ``"close Segment(...)"``.
        """
        count = len(self._views)
        if count:
            views = "a NumPy view of its memory is" if count == 1 else f"{count} NumPy views of its memory are"
            raise BufferError(f"cannot {action} while {views} alive; delete the arrays (and their slices) first")
