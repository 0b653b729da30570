"""Checks that no source file is longer than 500 lines. Stubs (.pyi) are not checked, because a tool generates them."""

from collections.abc import Iterator
from pathlib import Path

from source_tree import Finding, files, report, root_from_arguments

LIMIT = 500
SUFFIXES = (".py", ".cpp", ".hpp", ".h", ".inc", ".sh", ".cmake", "CMakeLists.txt", "Makefile")


def findings(root: Path) -> Iterator[Finding]:
    """Yields every file over the limit."""
    for path in files(root, *SUFFIXES):
        length = len((root / path).read_text().splitlines())
        if length > LIMIT:
            yield Finding(path, LIMIT + 1, f"{length} lines; the limit is {LIMIT}: split it by noun")


if __name__ == "__main__":
    raise SystemExit(report(findings(root_from_arguments())))
