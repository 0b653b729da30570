"""Event modes: the rule by which the events of a replay become complete. A replay runs no GPU work."""

from __future__ import annotations

import re
from typing import NamedTuple

from memlake.errors import ConfigError

__all__ = ["EventMode"]


class EventMode(NamedTuple):
    """One of three rules.

    ``"immediate"``: an event is complete when the pool first queries it. ``"recorded"``: an event is complete when the
    trace says so, or when the trace synchronises the device. ``"lag:N"``: an event is complete N rows later, as if the
    host ran ahead of the device.
    """

    kind: str
    lag: int = 0

    @classmethod
    def parse(cls, text: str) -> EventMode:
        """Reads ``"immediate"``, ``"recorded"`` or ``"lag:N"``.

        Raises:
            ConfigError: if the text is none of them.
        """
        if text in ("immediate", "recorded"):
            return cls(text)
        if isinstance(text, str) and (match := re.fullmatch(r"lag:([0-9]{1,18})", text)):
            return cls("lag", int(match[1]))
        shown = repr(text)[:60]
        raise ConfigError(
            f'events must be "immediate", "recorded" or "lag:N", got {shown}; hint: "lag:8" means 8 rows later'
        )

    def __str__(self) -> str:
        return f"lag:{self.lag}" if self.kind == "lag" else self.kind
