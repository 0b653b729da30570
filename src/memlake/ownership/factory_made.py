"""Objects that users get from a function and do not construct."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["FactoryMade"]


class FactoryMade:
    """A class whose constructor refuses; the error names the functions that make its objects.

    Those functions use ``object.__new__``, which does not call the constructor.
    """

    __slots__ = ()

    _made_by: ClassVar[str]
    """The function to call instead, for instance ``"memlake.vmm.reserve()"``."""

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError(f"{type(self).__name__} cannot be made by hand; use {self._made_by}")
