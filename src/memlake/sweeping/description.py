"""The description of a sweep in its results file: which files and settings belong together.

A results file keeps the rows of many sweeps. The description of the last one says which rows are its results, so that a
report can be made of the file alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memlake.jobs import Ranks
    from memlake.sweeping.settings import Setting

__all__ = ["description_of"]


def description_of(
    found: Ranks,
    digests: Mapping[str, str],
    settings: tuple[Setting, ...],
    basis: str,
    device: int | None,
    events: str,
    unreadable: Mapping[str, str],
) -> dict[str, Any]:
    """Returns the description of a sweep, as JSON values.

    Args:
        found: the files.
        digests: the SHA-256 of the content of each file that could be read.
        settings: the settings, in the order of the results.
        basis: what decides the results beside files and settings; see `memlake.sweeping.basis`.
        device: the device of a snapshot; None: the one with the most events.
        events: when events are complete.
        unreadable: the files that cannot be read, with the reasons.
    """
    return {
        "files": [
            {"file": one.path, "label": one.label, "rank": one.number, "sha256": digests.get(one.path)}
            for one in found.files
        ],
        "settings": [setting.to_json() for setting in settings],
        "basis": basis,
        "device": device,
        "events": events,
        "numbered_by": found.numbered_by,
        "num_ignored": found.found.num_ignored,
        "ignored": list(found.found.ignored),
        "num_repeated": found.found.num_repeated,
        "unreadable": dict(unreadable),
    }
