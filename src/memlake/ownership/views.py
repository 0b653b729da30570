"""Live views: the NumPy arrays that still use an owner's memory.

A view is an object with ``__array_interface__``. NumPy keeps the view as the base of the array, so the array and its
slices keep the view alive, and the view keeps the owner alive. The owner has weak references to its views, so a view
disappears from the list when its last array is deleted.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

__all__ = ["LiveViews", "MemoryView"]


class MemoryView:
    """Bytes at an address, for ``numpy.asarray``. A view keeps the owner of the bytes alive."""

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
        """Adds a view; it stays in the list while it is alive."""
        self._views.add(view)

    def refuse(self, action: str) -> None:
        """Raises BufferError if a view is alive.

        Args:
            action: the action to refuse, for the message, such as ``"close Segment(...)"``.
        """
        count = len(self._views)
        if count:
            views = "a NumPy view of its memory is" if count == 1 else f"{count} NumPy views of its memory are"
            raise BufferError(f"cannot {action} while {views} alive; delete the arrays (and their slices) first")
