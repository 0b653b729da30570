"""When the events of a replay are complete. Nothing runs in a replay, so a rule, or the trace itself, says it."""

from __future__ import annotations

import re
from typing import NamedTuple

from memlake.errors import ConfigError

__all__ = ["EventMode"]


class EventMode(NamedTuple):
    """One of the three rules.

    ``"immediate"``: complete when first asked for. ``"recorded"``: pending until the trace says that it is done, or
    that the device was synchronised. ``"lag:N"``: complete N rows later, as if the host ran ahead of the device.
    """

    kind: str
    lag: int = 0

    @classmethod
    def parse(cls, text: str) -> EventMode:
        """Reads ``"immediate"``, ``"recorded"`` or ``"lag:N"``.

        Raises:
            ConfigError: if it is none of them.
        """
        if text in ("immediate", "recorded"):
            return cls(text)
        if isinstance(text, str) and (match := re.fullmatch(r"lag:([0-9]{1,18})", text)):
            return cls("lag", int(match[1]))
        shown = repr(text)[:60]
        raise ConfigError(f'events must be "immediate", "recorded" or "lag:N" (N rows later), got {shown}')

    def __str__(self) -> str:
        return f"lag:{self.lag}" if self.kind == "lag" else self.kind
