"""Lists the project's own files, for the checks in this folder."""

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# Folders with generated files, which no check reads. Hidden folders (.git, .venv, caches) are skipped, except OURS.
GENERATED = {"build", "dist", "__pycache__", "results"}
OURS = {".ci", ".devcontainer", ".github"}


@dataclass(frozen=True)
class Finding:
    """One fault and its place."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        """Formats the finding as compilers do, so that editors can jump to its place."""
        return f"{self.path}:{self.line}: {self.message}"


def files(root: Path, *suffixes: str) -> Iterator[Path]:
    """Yields the project's files with one of these suffixes (without suffixes: all), relative to `root`, sorted."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in GENERATED and (f in OURS or not f.startswith(".")))
        for name in sorted(names):
            if not suffixes or name.endswith(suffixes):
                yield (Path(folder) / name).relative_to(root)


def root_from_arguments() -> Path:
    """Returns the root of the tree to check: the first argument, or the project that contains this file."""
    return Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent


def report(findings: Iterable[Finding]) -> int:
    """Prints the findings and returns the exit status of the check."""
    listed = sorted(findings, key=lambda finding: (finding.path, finding.line, finding.message))
    for finding in listed:
        print(finding)
    return 1 if listed else 0
