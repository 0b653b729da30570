"""Checks that every link of a Markdown file resolves, and that every cited path exists.

A path counts as cited if it begins with one of the project's own folders: in Markdown inside `code`, in a source file
if it also ends with a file extension. A path with `*` is a pattern that must match at least one file.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from source_tree import Finding, files, report, root_from_arguments

SOURCES = (".py", ".pyi", ".cpp", ".hpp", ".h", ".inc", ".toml", ".sh", ".yaml", "CMakeLists.txt", "Makefile")
# The tests of the checks cite paths of small trees that they write themselves.
NOT_READ = Path("tests/tools")
# Folders that builds and runs create; a fresh clone does not have them.
MADE_LATER = ("build/", "dist/", "benchmarks/results/", ".venv/")

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\s]+)`")
FENCE = re.compile(r"^\s*(```|~~~)")
CITED_FILE = re.compile(r"(?<![\w./<-])((?:[\w.*-]+/)+[\w.*-]+\.(?:md|py|pyi|cpp|hpp|h|inc|sh|toml))\b")


def anchors(text: str) -> set[str]:
    """Returns the anchors of the headings of a Markdown file, in the form that GitHub gives them."""
    headings = re.findall(r"^#+\s+(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yields the lines of a Markdown file outside code fences, with their numbers."""
    is_fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if FENCE.match(line):
            is_fenced = not is_fenced
        elif not is_fenced:
            yield number, line


def exists(root: Path, cited: str) -> bool:
    """Returns True if a path relative to the root exists, or a pattern matches. NAME stands for any name."""
    if cited.startswith(MADE_LATER):
        return True
    cited = cited.replace("NAME", "*")
    return any(root.glob(cited.rstrip("/"))) if "*" in cited else (root / cited).exists()


def broken_link(root: Path, path: Path, target: str) -> str | None:
    """Returns why a link of a Markdown file is broken; None if it resolves or leads out of the project."""
    if re.match(r"[a-z]+:", target):
        return None
    name, _, anchor = target.partition("#")
    file = root / path.parent / name if name else root / path
    if not file.exists():
        return f"links to {target}, which does not exist"
    if anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
        return f"links to {target}, but that page has no such heading"
    return None


def is_ours(root: Path, cited: str) -> bool:
    """Returns True if a cited path begins with a folder of the project. Other texts are foreign paths or no paths."""
    first, slash, _ = cited.partition("/")
    return bool(slash) and first not in ("", ".", "..") and (root / first).is_dir()


def findings_in_markdown(root: Path, path: Path) -> Iterator[Finding]:
    """Yields the broken links and missing paths of one document."""
    for number, line in prose((root / path).read_text()):
        for target in LINK.findall(line):
            if reason := broken_link(root, path, target):
                yield Finding(path, number, reason)
        for cited in CODE.findall(line):
            cited = re.sub(r":\d+$", "", cited)
            is_path = re.fullmatch(r"[\w./*-]+", cited) is not None
            if is_path and is_ours(root, cited) and not exists(root, cited):
                yield Finding(path, number, f"cites {cited}, which does not exist")


def findings_in_source(root: Path, path: Path) -> Iterator[Finding]:
    """Yields the missing paths that one source file cites."""
    for number, line in enumerate((root / path).read_text().splitlines(), start=1):
        for cited in CITED_FILE.findall(line):
            if is_ours(root, cited) and not exists(root, cited):
                yield Finding(path, number, f"cites {cited}, which does not exist")


def findings(root: Path) -> Iterator[Finding]:
    """Yields all broken links and missing paths."""
    for path in files(root, ".md"):
        yield from findings_in_markdown(root, path)
    for path in files(root, *SOURCES):
        if NOT_READ not in path.parents:
            yield from findings_in_source(root, path)


if __name__ == "__main__":
    raise SystemExit(report(findings(root_from_arguments())))
