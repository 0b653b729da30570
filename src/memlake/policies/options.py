"""What the options of every policy have in common, and those of the policy that has none."""

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
    # The core reads no exponents.
    "number": lambda number: format(Decimal(repr(number)), "f"),
    "divisions": lambda divisions: format_divisions(to_table(divisions)),
}
_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "flag": lambda text: text == "True",
    "size": int,
    "mib": lambda text: int(text) * _MIB,
    "count": int,
    "number": float,
    "divisions": to_table,
}


def value_from_text(option: Option, text: str) -> Any:
    """The value that a text of the core means, sizes in bytes."""
    return _FROM_TEXT[option.kind](text)


class Options:
    """One policy with its settings: immutable, and equal if all settings are.

    A subclass is a frozen dataclass with one field for each option that the core has for the policy. A field whose name
    is not the option's key says so in its metadata.
    """

    name: ClassVar[str]
    """What the policy is called."""

    @property
    def summary(self) -> str:
        """What the policy is, in one line."""
        return entries()[self.name].summary

    @property
    def capabilities(self) -> Capabilities:
        """What pools of the policy can do."""
        return entries()[self.name].capabilities

    def to_text(self) -> str:
        """The settings that are not the default, as ``key:value,key:value``; empty if all are."""
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
        """What the settings let a pool hold at most on a device of this size; None if they set no limit."""
        return None

    @property
    def label(self) -> str:
        """The name, with the settings behind it if there are any: for tables."""
        text = self.to_text()
        return f"{self.name} ({text})" if text else self.name

    @classmethod
    def _options(cls) -> list[tuple[Option, Field[Any]]]:
        """Every option of the core, with the field that has its value."""
        by_key = {field.metadata.get("key", field.name): field for field in fields(cls)}  # type: ignore[arg-type]
        return [(option, by_key[option.key]) for option in entries()[cls.name].options]

    @classmethod
    def _from_settings(cls, settings: Mapping[str, str]) -> Self:
        """From what the core has read."""
        return cls(
            **{
                field.name: value_from_text(option, settings[option.key])
                for option, field in cls._options()
                if option.key in settings
            }
        )


@dataclass(frozen=True, kw_only=True)
class DirectOptions(Options):
    """No pool: one driver allocation per request, one driver free per free. The naive baseline; nothing to set."""

    name = "direct"
