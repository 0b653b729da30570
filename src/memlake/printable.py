"""Results that print themselves: as text for `print`, as HTML for notebooks.

A result is a value of a low floor, and its form is a table of a high one. `Printable` therefore names the table and
loads it when the result is printed, and not before: the packages of results do not know how they are printed, and a
program that prints nothing does not load the tables.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

__all__ = ["Printable"]


class Printable:
    """The base class of results that have a table: `print(result)` prints what the command of the same name prints.

    A subclass names its table, a module of `memlake.tables` with a function ``page_of(result, **choices)``::

        class Comparison(Printable, table="comparison"): ...
    """

    _table: ClassVar[str] = ""

    def __init_subclass__(cls, *, table: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        cls._table = table or cls._table

    def to_text(self, **choices: Any) -> str:
        """Returns the table as plain text, as the command prints it where there is no terminal.

        Args:
            choices: what the table lets a caller choose; docs/reference/api.md lists it.
        """
        return str(self._page(choices).to_text())

    def to_html(self, **choices: Any) -> str:
        """Returns the table as HTML. Every text in it is escaped."""
        return str(self._page(choices).to_html())

    def print(self, **choices: Any) -> None:
        """Prints the table to stdout, in the width of the terminal if it is one."""
        self._page(choices).print()

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return self.to_html()

    def _page(self, choices: dict[str, Any]) -> Any:
        return import_module(f"memlake.tables.{self._table}").page_of(self, **choices)
