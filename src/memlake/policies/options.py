"""The base class of all policies' options, and the options of the policy ``direct``, which has none."""

from __future__ import annotations

from dataclasses import Field, dataclass, fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from memlake.policies.divisions import format_divisions, to_table
from memlake.policies.registry import entries
from memlake.units import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

    from memlake.policies.registry import Capabilities, Option

__all__ = ["DirectOptions", "Options", "value_from_text"]

_MIB = 2**20

_TO_TEXT: dict[str, Callable[[Any], str]] = {
    "flag": str,
    "size": lambda size: str(parse_bytes(size)),
    "mib": lambda size: str(parse_bytes(size) // _MIB),
    "count": str,
    "word": str,
    # The core does not parse exponents.
    "number": lambda number: format(Decimal(repr(number)), "f"),
    "divisions": lambda divisions: format_divisions(to_table(divisions)),
}
_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "flag": lambda text: text == "True",
    "size": int,
    "mib": lambda text: int(text) * _MIB,
    "count": int,
    "word": str,
    "number": float,
    "divisions": to_table,
}


def value_from_text(option: Option, text: str) -> Any:
    """Converts the core's text of an option to its Python value; sizes are in bytes."""
    return _FROM_TEXT[option.kind](text)


class Options:
    """One policy with its settings. It is immutable; two are equal if all settings are equal.

    A subclass is a frozen dataclass with one field for each option that the core has for the policy. If the name of a
    field differs from the option's key, its metadata has the key.
    """

    name: ClassVar[str]
    """The name of the policy."""

    @property
    def summary(self) -> str:
        """The policy in one line."""
        return entries()[self.name].summary

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the policy's pools."""
        return entries()[self.name].capabilities

    def to_text(self) -> str:
        """Returns the settings that differ from the default, as ``key:value,key:value``; empty if none differs."""
        given = {option.key: (option, field) for option, field in self._options()}
        changed = {
            key: _TO_TEXT[option.kind](value)
            for key, (option, field) in given.items()
            if (value := getattr(self, field.name)) != field.default
        }
        return ",".join(f"{key}:{value}" for key, value in changed.items())

    @property
    def configuration(self) -> str:
        """The name and the settings in one text, which `memlake.policy` and ``MEMLAKE_CONF`` read."""
        return ",".join(filter(None, [self.name, self.to_text()]))

    def limit_on(self, total_memory: int) -> int | None:
        """Returns the most bytes that the settings let a pool hold on a device of this size; None: no limit."""
        return None

    @property
    def label(self) -> str:
        """The name for tables, followed by the settings that differ from the default."""
        text = self.to_text()
        return f"{self.name} ({text})" if text else self.name

    @classmethod
    def _options(cls) -> list[tuple[Option, Field[Any]]]:
        """Returns every option of the core with the field that has its value."""
        by_key = {field.metadata.get("key", field.name): field for field in fields(cls)}  # type: ignore[arg-type]
        return [(option, by_key[option.key]) for option in entries()[cls.name].options]

    @classmethod
    def _from_settings(cls, settings: Mapping[str, str]) -> Self:
        """Makes the options from the settings that the core parsed."""
        return cls(
            **{
                field.name: value_from_text(option, settings[option.key])
                for option, field in cls._options()
                if option.key in settings
            }
        )


@dataclass(frozen=True, kw_only=True)
class DirectOptions(Options):
    """One driver allocation per request and one driver free per free, without caching. It has no options."""

    name = "direct"
