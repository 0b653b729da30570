"""The settings of emulated devices, and their text form that the emulator reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from memlake.errors import ConfigError
from memlake.units import Size, parse_bytes

__all__ = ["EmulatorConfig", "Peers", "Sizes"]

Sizes = Size | Sequence[Size]
"""One size for all devices, or one for each."""

Peers = str | Sequence[Sequence[bool]]
"""``"all"``, ``"none"``, or a matrix: row i tells whose memory device i can access."""


@dataclass(frozen=True, kw_only=True)
class EmulatorConfig:
    """The settings of emulated devices. The fields are the keys of ``MEMLAKE_EMULATOR``.

    This class checks only what it must know to write the text. The emulator checks the values. Without `devices` there
    are as many devices as the longest list of sizes has, or one.
    """

    devices: int | None = None
    memory: Sizes = "8GiB"
    backing: str = "host"
    peers: Peers = "all"
    granularity: Sizes = "2MiB"
    recommended_granularity: Sizes | None = None
    profile: str = "strict"
    relax: Sequence[str] = field(default=())
    streams: str = "threads"
    aliasing: str = "prefix"
    lacks: Sequence[str] = field(default=())
    fabric: str = "none"
    pool_segment: Size = "32MiB"
    driver_version: int | None = None
    poison: bool = False
    kernels: str = "refuse"
    name: str | None = None

    def to_text(self) -> str:
        """Returns the text form, ``"memory=8589934592/17179869184,..."``, as in ``MEMLAKE_EMULATOR``.

        Raises:
            ConfigError: if a value cannot be written in this syntax.
        """
        entries = {
            "memory": _sizes_text("memory", self.memory),
            "granularity": _sizes_text("granularity", self.granularity),
            "peers": _peers_text(self.peers),
            "profile": self.profile,
            "backing": self.backing,
            "streams": self.streams,
            "aliasing": self.aliasing,
            "fabric": self.fabric,
            "pool_segment": str(parse_bytes(self.pool_segment, what="pool_segment")),
            "poison": "on" if self.poison else "off",
            "kernels": self.kernels,
        }
        if self.devices is not None:
            entries["devices"] = str(_whole_number("devices", self.devices))
        if self.recommended_granularity is not None:
            entries["recommended"] = _sizes_text("recommended_granularity", self.recommended_granularity)
        if self.relax:
            entries["relax"] = _joined("relax", self.relax)
        if self.lacks:
            entries["lacks"] = _joined("lacks", self.lacks)
        if self.driver_version is not None:
            entries["driver"] = str(_whole_number("driver_version", self.driver_version))
        if self.name is not None:
            entries["name"] = self.name
        return ",".join(f"{key}={_plain(key, value)}" for key, value in entries.items())


def _whole_number(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{key} must be a whole number of at least 1, got {value!r}")
    return value


def _sizes_text(key: str, sizes: Sizes) -> str:
    if not isinstance(sizes, Sequence) or isinstance(sizes, str):
        return str(parse_bytes(sizes, what=key))
    if not sizes:
        raise ConfigError(f"{key} must be a size, or one size for each device; the list is empty")
    return "/".join(str(parse_bytes(size, what=key)) for size in sizes)


def _plain(key: str, value: object) -> str:
    """Returns the value if it is a string without separators of the syntax. Raises ConfigError otherwise."""
    if not isinstance(value, str):
        raise ConfigError(f"{key} must be a string, got {value!r} of type {type(value).__name__}")
    if not value or not value.isprintable() or any(mark in value for mark in ",="):
        raise ConfigError(f"{key} must be a printable text without ',' and '=', got {value!r}")
    return value


def _joined(key: str, names: Sequence[str]) -> str:
    if isinstance(names, str):
        raise ConfigError(f"{key} must be a sequence of names such as ({names!r},), got a single string")
    return "+".join(names)


def _peers_text(peers: Peers) -> str:
    if isinstance(peers, str):
        return peers
    try:
        rows = ["".join("1" if cell else "0" for cell in row) for row in peers]
    except TypeError:
        raise ConfigError(f'peers must be "all", "none" or a matrix of booleans, got {peers!r}') from None
    if any(len(row) != len(rows) for row in rows):
        raise ConfigError(
            f"peers must be a square matrix, got {len(rows)} rows of {[len(row) for row in rows]} columns"
        )
    return "/".join(rows)
