"""Sizes: parses ``"4GiB"`` to 4294967296 bytes and formats bytes as ``"4 GiB"``. All other code uses this module.

A size is an int (bytes), a string with a unit, or a share such as ``"50%"`` where the total is known. ``"512MB"`` is
512 000 000 and ``"512MiB"`` is 536 870 912. Upper and lower case mean the same. ``"4G"`` means GiB, as in Docker.
"""

from __future__ import annotations

import operator
import re
from typing import SupportsIndex

from memlake.errors import ConfigError
from memlake.wording import quoted

__all__ = ["LARGEST_SIZE", "Size", "format_bytes", "parse_bytes"]

Size = SupportsIndex | str
"""The type of every ``nbytes``, ``memory`` or ``limit`` argument."""

LARGEST_SIZE = 2**63 - 1
"""The largest valid size: drivers, files and Python's own buffers count bytes in signed 64-bit integers."""

_BINARY = {"": 1, "b": 1} | {
    prefix + suffix: 1024**power for power, prefix in enumerate("kmgtp", start=1) for suffix in ("", "ib")
}
_DECIMAL = {prefix + "b": 1000**power for power, prefix in enumerate("kmgtp", start=1)}
_UNITS = _BINARY | _DECIMAL

# At most 40 digits: a longer number is no size, and parsing megabytes of digits would take very long.
# An exponent needs a digit behind it, so that no unit is taken for one.
_SIZE = re.compile(r"([+-]?)(\d{1,40}(?:\.\d{1,40})?)(?:e\+?(\d{1,2}))?\s*([a-z]*|%)", re.ASCII)


def parse_bytes(size: Size, *, of: int | None = None, what: str = "size", round_down: bool = False) -> int:
    """Returns a size in bytes.

    Args:
        size: an int, or a string such as ``"4GiB"``, ``"512MB"``, ``"1.5 GiB"``, ``"24e9"`` or ``"50%"``.
        of: the total that a percentage refers to. Without it percentages are refused.
        what: the name of the argument in error messages.
        round_down: whether to round ``"23.65GiB"``, which is no whole number of bytes, down. Else it is refused.

    Raises:
        ConfigError: if the argument is not a size, is negative, or is larger than 2^63 - 1 bytes.
    """
    nbytes = _parse_text(size, of, what, round_down) if isinstance(size, str) else _parse_number(size, what)
    if nbytes < 0:
        raise ConfigError(f'{what} must not be negative, got {size!r}; hint: write for instance "4GiB"')
    if nbytes > LARGEST_SIZE:
        raise ConfigError(
            f"{what} {quoted(size)} is larger than any memory; hint: at most {LARGEST_SIZE} bytes are possible"
        )
    return nbytes


def format_bytes(nbytes: int) -> str:
    """Formats bytes for people: ``"10 GiB"``, ``"640 MiB"``, ``"1.5 KiB"``, ``"0 B"``; two decimals at most."""
    sign, rest = ("-", -nbytes) if nbytes < 0 else ("", nbytes)
    for power, unit in reversed(list(enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB")))):
        if rest >= 1024**power or power == 0:
            number = f"{rest / 1024**power:.2f}".rstrip("0").rstrip(".")
            return f"{sign}{number} {unit}"
    raise AssertionError("unreachable: power 0 always matches")


def _parse_number(size: object, what: str) -> int:
    # bool is an int to Python, but True bytes is a mistake, not one byte.
    if not isinstance(size, bool):
        try:
            return operator.index(size)  # type: ignore[arg-type]  # TypeError is the answer we want
        except TypeError:
            pass
    raise ConfigError(f'{what} must be an int or a string such as "4GiB", got {size!r} of type {type(size).__name__}')


def _parse_text(size: str, of: int | None, what: str, round_down: bool) -> int:
    match = _SIZE.fullmatch(size.strip().lower())
    if match is None:
        raise ConfigError(f'{what} {quoted(size)} is not a size; hint: write for instance "4GiB", "512MB" or 4096')
    sign, digits, exponent, unit = match.groups()
    # Whole numbers throughout: a float would round sizes above 2^53.
    whole, _, fraction = digits.partition(".")
    factor: int = 10 ** int(exponent or 0)
    numerator = int(whole + fraction) * factor
    denominator: int = 10 ** len(fraction)
    if unit == "%":
        if of is None:
            raise ConfigError(
                f"{what} {quoted(size)} is a share, but there is no whole to take it from; hint: give bytes"
            )
        if numerator > 100 * denominator:
            raise ConfigError(f"{what} {quoted(size)} is more than the whole; hint: give 100% or less")
        nbytes = numerator * of // (100 * denominator)
    elif unit in _UNITS:
        nbytes, rest = divmod(numerator * _UNITS[unit], denominator)
        if rest and not round_down:
            raise ConfigError(f"{what} {quoted(size)} is not a whole number of bytes; hint: give fewer decimals")
    else:
        raise ConfigError(
            f"{what} {quoted(size)} has the unknown unit {unit!r}; "
            "hint: known are B, KB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB"
        )
    return -nbytes if sign == "-" else nbytes
