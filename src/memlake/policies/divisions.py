"""PyTorch's ``roundup_power2_divisions``: the number of sizes between two powers of two, for each power of two.

The core takes 16 numbers, for requests of 1 MiB, 2 MiB, ... 32 GiB and more. A user writes one number for all of them,
a mapping from boundaries to numbers, or PyTorch's list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from memlake.errors import ConfigError
from memlake.units import Size, format_bytes, parse_bytes

__all__ = ["Divisions", "Table", "format_divisions", "to_table"]

Divisions = int | str | Mapping[Size, int] | Sequence[int]
"""One number; PyTorch's list such as ``"[256:1,512:2,>:8]"`` (MiB); a mapping from a size to a number, ``">"`` for all
larger sizes; or all 16 numbers."""

Table = tuple[int, ...]

_ENTRIES = 16
_MIB = 2**20
_OPTION = "roundup_power2_divisions"


def to_table(divisions: Divisions) -> Table:
    """Returns the 16 numbers.

    As in PyTorch, the number of the first boundary also applies to all smaller sizes, and the number of ``>`` to all
    sizes above the boundary before it. A size between two boundaries that is not listed is not rounded.

    Raises:
        ConfigError: if a number is neither 0 nor a power of two, or a boundary is no power of two of at least 1 MiB.
    """
    if isinstance(divisions, str):
        return _from_text(divisions)
    if isinstance(divisions, Mapping):
        return _from_boundaries([(_boundary(key), value) for key, value in divisions.items()])
    if isinstance(divisions, Sequence):
        if len(divisions) != _ENTRIES:
            raise ConfigError(
                f"{_OPTION} as a table needs {_ENTRIES} numbers (1 MiB, 2 MiB, ... 32 GiB), got {len(divisions)}"
            )
        return tuple(_checked(value) for value in divisions)
    return (_checked(divisions),) * _ENTRIES


def format_divisions(table: Table) -> str:
    """Returns the table in PyTorch's syntax: one number if all are equal, else the shortest equivalent list."""
    if len(set(table)) == 1:
        return str(table[0]) if table[0] else "[]"
    first = next(index for index in range(_ENTRIES) if table[index + 1] != table[0])  # applies to all smaller
    last = next(index for index in reversed(range(_ENTRIES - 1)) if table[index] != table[-1])  # the rest is equal
    listed = [index for index in range(first, last + 1) if index in (first, last) or table[index]]
    entries = [f"{2**index}:{table[index]}" for index in listed] + ([f">:{table[-1]}"] if table[-1] else [])
    return f"[{','.join(entries)}]"


def _from_text(text: str) -> Table:
    stripped = re.sub(r"\s", "", text)
    if re.fullmatch(r"\d{1,19}", stripped):
        return (_checked(int(stripped)),) * _ENTRIES
    entry = r"(?:\d{1,19}|>):\d{1,19}"
    if not re.fullmatch(rf"\[(?:{entry}(?:,{entry})*)?\]", stripped):
        raise ConfigError(f'{_OPTION} must be a number or a list such as "[256:1,512:2,>:8]", got {text[:60]!r}')
    entries = [entry.split(":") for entry in stripped[1:-1].split(",") if entry]
    return _from_boundaries([(None if key == ">" else int(key) * _MIB, int(value)) for key, value in entries])


def _boundary(key: Size) -> int | None:
    if key == ">":
        return None
    nbytes = parse_bytes(key, what=f"a boundary of {_OPTION}")
    if nbytes < _MIB:
        raise ConfigError(
            f"a boundary of {_OPTION} must be at least 1 MiB, got {format_bytes(nbytes)}; "
            'write it with a unit: "256MiB"'
        )
    return nbytes


def _from_boundaries(entries: list[tuple[int | None, int]]) -> Table:
    table = [0] * _ENTRIES
    behind_last = 0
    is_first = True
    for boundary, value in entries:
        value = _checked(value)
        if boundary is None:
            table[behind_last:] = [value] * (_ENTRIES - behind_last)
            continue
        mib = boundary // _MIB
        if boundary % _MIB or mib & (mib - 1) or mib == 0:
            raise ConfigError(f"a boundary of {_OPTION} must be a power of two of MiB, got {format_bytes(boundary)}")
        index = min(mib.bit_length() - 1, _ENTRIES - 1)
        if is_first:
            table[:index] = [value] * index
            is_first = False
        table[index] = value
        behind_last = index + 1
    return tuple(table)


def _checked(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or value & (value - 1) or value >= 2**32:
        raise ConfigError(f"{_OPTION} must be powers of two (or 0: off), got {value!r}")
    return value
