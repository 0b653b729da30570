"""Finds paths of the machine that built a wheel inside of the wheel."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def machine_paths(wheel: Path, folders: list[Path]) -> list[str]:
    """Returns a sentence for each file of a wheel that has the path of one of these folders in its bytes."""
    wanted = sorted({str(form) for folder in folders for form in (folder, folder.resolve())})
    found = []
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            found += [f"{wheel.name}: {name} has the path {path}" for path in wanted if path.encode() in content]
    return found
