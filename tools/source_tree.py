"""Which files are the project's own, for the checks in this folder."""

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# Made by tools, never read by a check. Hidden folders (.git, .venv, caches) are skipped as well, except .ci.
GENERATED = {"build", "dist", "__pycache__", "results"}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, and where."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        """As compilers print it, so that editors can jump there."""
        return f"{self.path}:{self.line}: {self.message}"


def files(root: Path, *suffixes: str) -> Iterator[Path]:
    """The project's files with one of these suffixes (all of them if none is given), relative to `root`, sorted."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in GENERATED and (f == ".ci" or not f.startswith(".")))
        for name in sorted(names):
            if not suffixes or name.endswith(suffixes):
                yield (Path(folder) / name).relative_to(root)


def root_from_arguments() -> Path:
    """The tree to check: the first argument, or the one this file is in."""
    return Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent


def report(findings: Iterable[Finding]) -> int:
    """Prints what was found; the exit status of the check."""
    listed = sorted(findings, key=lambda finding: (finding.path, finding.line, finding.message))
    for finding in listed:
        print(finding)
    return 1 if listed else 0
