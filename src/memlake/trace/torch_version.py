"""The version of PyTorch that wrote a snapshot, as far as the form of the snapshot tells. Snapshots do not name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["TorchVersions"]

Version = tuple[int, int]

# What each version added to snapshots, newest first: (the first version that has it, the last that lacks it).
_OF_EVENTS: dict[str, tuple[Version, Version]] = {
    "pool_id": ((2, 12), (2, 11)),
    "user_metadata": ((2, 10), (2, 9)),
    "compile_context": ((2, 8), (2, 7)),
    "time_us": ((2, 2), (2, 1)),
}
_OF_SNAPSHOTS: dict[str, tuple[Version, Version]] = {
    "external_annotations": ((2, 6), (2, 5)),
    "allocator_settings": ((2, 3), (2, 2)),
}


@dataclass(frozen=True)
class TorchVersions:
    """The versions that may have written a snapshot, both ends included. None: no limit is known on that side."""

    first: Version | None = None
    last: Version | None = None

    @classmethod
    def of_snapshot(cls, raw: Mapping[str, Any], has_block_history: bool) -> TorchVersions:
        """Infers the versions from the keys of a snapshot. A list of segments without more is of any version."""
        if has_block_history:
            return cls((2, 0), (2, 0))
        if "device_traces" not in raw:
            return cls()
        firsts: list[Version] = []
        lasts: list[Version] = []
        keys = set(raw)
        event = _first_event(raw.get("device_traces"))
        for names, present in ((_OF_SNAPSHOTS, keys), (_OF_EVENTS, set(event) if event else None)):
            if present is None:
                continue
            for name, (first, last) in names.items():
                if name in present:
                    firsts.append(first)
                else:
                    lasts.append(last)
        oldest, newest = max(firsts, default=None), min(lasts, default=None)
        # A program may write a snapshot itself and leave out fields; then the keys contradict each other.
        return cls(oldest, newest) if oldest is None or newest is None or oldest <= newest else cls()

    @classmethod
    def from_metadata(cls, value: object) -> TorchVersions:
        """Reads what `to_json` returned."""
        if not (isinstance(value, list) and len(value) == 2):
            return cls()
        return cls(*(_version(one) for one in value))

    def to_json(self) -> list[str | None]:
        """Returns both ends as texts such as ``"2.9"``."""
        return [None if one is None else f"{one[0]}.{one[1]}" for one in (self.first, self.last)]

    def is_before(self, version: Version) -> bool:
        """Whether the snapshot is certainly of an earlier version."""
        return self.last is not None and self.last < version

    def is_from(self, version: Version) -> bool:
        """Whether the snapshot is certainly of this version or a later one."""
        return self.first is not None and self.first >= version

    def __str__(self) -> str:
        first, last = self.to_json()
        if first is None and last is None:
            return "unknown"
        if first is None:
            return f"{last} or earlier"
        if last is None:
            return f"{first} or later"
        return first if first == last else f"{first} to {last}"


def _first_event(traces: object) -> Iterable[str] | None:
    if type(traces) is not list:
        return None
    for events in traces:
        if type(events) is list and events and type(events[0]) is dict:
            keys: Iterable[str] = events[0]
            return keys
    return None


def _version(text: object) -> Version | None:
    if not isinstance(text, str) or len(text) > 10:
        return None
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
