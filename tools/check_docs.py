"""Documents do not go stale: every link of a Markdown file resolves, and every path that is cited exists.

A path counts as cited when it begins with one of the project's own folders: in Markdown inside `code`, in a source file
when it also ends like a file. `*` in it is a pattern that must match something.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from source_tree import Finding, files, report, root_from_arguments

SOURCES = (".py", ".pyi", ".cpp", ".hpp", ".h", ".inc", ".toml", ".sh", ".yaml", "CMakeLists.txt", "Makefile")
# The tests of the checks write small trees whose paths exist nowhere else.
NOT_READ = Path("tests/tools")
# Made while the project is used, so a fresh clone does not have them.
MADE_LATER = ("build/", "dist/", "benchmarks/results/", ".venv/")

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\s]+)`")
FENCE = re.compile(r"^\s*(```|~~~)")
CITED_FILE = re.compile(r"(?<![\w./<-])((?:[\w.*-]+/)+[\w.*-]+\.(?:md|py|pyi|cpp|hpp|h|inc|sh|toml))\b")


def anchors(text: str) -> set[str]:
    """The anchors that the headings of a Markdown file offer, as hosts of Markdown make them."""
    headings = re.findall(r"^#+\s+(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines of a Markdown file that are not inside a code fence."""
    is_fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if FENCE.match(line):
            is_fenced = not is_fenced
        elif not is_fenced:
            yield number, line


def exists(root: Path, cited: str) -> bool:
    """Whether a path, or a pattern, relative to the root is there."""
    if cited.startswith(MADE_LATER):
        return True
    return any(root.glob(cited.rstrip("/"))) if "*" in cited else (root / cited).exists()


def broken_link(root: Path, path: Path, target: str) -> str | None:
    """Why a link of a Markdown file leads nowhere; None if it leads somewhere or out of the project."""
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
    """Whether a cited path begins with a folder of the project (others are someone else's paths, or no paths)."""
    first, slash, _ = cited.partition("/")
    return bool(slash) and first not in ("", ".", "..") and (root / first).is_dir()


def findings_in_markdown(root: Path, path: Path) -> Iterator[Finding]:
    """Broken links and missing paths of one document."""
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
    """Missing paths that one source file cites."""
    for number, line in enumerate((root / path).read_text().splitlines(), start=1):
        for cited in CITED_FILE.findall(line):
            if is_ours(root, cited) and not exists(root, cited):
                yield Finding(path, number, f"cites {cited}, which does not exist")


def findings(root: Path) -> Iterator[Finding]:
    """Everything cited that is not there."""
    for path in files(root, ".md"):
        yield from findings_in_markdown(root, path)
    for path in files(root, *SOURCES):
        if NOT_READ not in path.parents:
            yield from findings_in_source(root, path)


if __name__ == "__main__":
    raise SystemExit(report(findings(root_from_arguments())))
