"""The work of a sweep: which results belong to it, under which keys, and which tasks compute them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlake.sweeping.task import Task, key_of

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from memlake.jobs import Ranks
    from memlake.sweeping.settings import Setting

__all__ = ["Work"]


@dataclass(frozen=True)
class Work:
    """All files of a sweep under all of its settings.

    Attributes:
        found: the files.
        digests: the SHA-256 of the content of each file that can be read.
        settings: the settings, in the order of the results.
        basis: what decides the results beside files and settings; see `memlake.sweeping.basis`.
        device: the device of a snapshot; None: the one with the most events.
        events: when events are complete.
    """

    found: Ranks
    digests: Mapping[str, str]
    settings: tuple[Setting, ...]
    basis: str
    device: int | None
    events: str

    @cached_property
    def keys(self) -> dict[tuple[str, Setting], str]:
        """The key of each result, by the digest of the file and the setting. Files of the same content share keys."""
        return {
            (digest, setting): key_of(self.basis, digest, self.device, self.events, setting.to_json())
            for digest in self.digests.values()
            for setting in self.settings
        }

    def keys_of(self, path: str) -> list[str]:
        """Returns the keys of the results of a file, in the order of the settings."""
        return [self.keys[self.digests[path], setting] for setting in self.settings]

    def paths_with(self, digest: str) -> list[str]:
        """Returns the files that have this content."""
        return [path for path, other in self.digests.items() if other == digest]

    def tasks_without(self, known: Container[str]) -> list[Task]:
        """Returns a task for each different content, with the settings whose keys are not known yet.

        The paths are absolute: workers have working directories of their own.
        """
        tasks: dict[str, Task] = {}
        for path, digest in self.digests.items():
            missing = tuple(setting for setting in self.settings if self.keys[digest, setting] not in known)
            if missing and digest not in tasks:
                tasks[digest] = Task(str(Path(path).absolute()), digest, self.device, self.events, missing)
        return list(tasks.values())

    def description(self, unreadable: Mapping[str, str]) -> dict[str, Any]:
        """Returns which files and settings belong together, as JSON values for the results file.

        A results file keeps the rows of many sweeps. The description of the last one says which rows are its results,
        so that a report can be made of the file alone.

        Args:
            unreadable: the files that cannot be read, with the reasons.
        """
        found = self.found
        return {
            "files": [
                {"file": one.path, "label": one.label, "rank": one.number, "sha256": self.digests.get(one.path)}
                for one in found.files
            ],
            "settings": [setting.to_json() for setting in self.settings],
            "basis": self.basis,
            "device": self.device,
            "events": self.events,
            "numbered_by": found.numbered_by,
            "num_ignored": found.found.num_ignored,
            "ignored": list(found.found.ignored),
            "num_repeated": found.found.num_repeated,
            "unreadable": dict(unreadable),
        }
