"""The pages of the site, made from the documents of the repository.

The documents are written for the repository first: their links lead to other files of the repository. Three things make
a site of them. Documents outside of docs/ become pages below project/, a linked source file becomes a page with its
text, and the pages with the docstrings are made from the names that the package exports. Links are changed accordingly.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from docstring_pages import docstring_pages
from markdown_lists import separated

LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)

# Documents outside of docs/, by their place in the site, in the order of its menu.
PROJECT = {
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
    "core/README.md": "project/core.md",
    "emulator/README.md": "project/emulator.md",
    "src/memlake/README.md": "project/python_package.md",
    "src/memlake/examples/README.md": "project/example_traces.md",
    "tests/README.md": "project/tests.md",
    "tests/peers/README.md": "project/peers.md",
    "tests/emulator/README.md": "project/emulator_tests.md",
    "tests/emulator/suites/README.md": "project/suites.md",
}
LANGUAGES = {".py": "python", ".c": "c", ".h": "c", ".cpp": "cpp", ".hpp": "cpp", ".sh": "sh", ".json": "json"}


def repository_path(site_path: str) -> str:
    """Returns the file of the repository that a page of the site shows."""
    for file, page in PROJECT.items():
        if page == site_path:
            return file
    return f"docs/{site_path}"


def site_path(repository: str) -> str:
    """Returns the place in the site of a file of the repository."""
    if repository.startswith("docs/"):
        return repository.removeprefix("docs/")
    if repository in PROJECT:
        return PROJECT[repository]
    return f"source/{repository.replace('/', '_')}.md"


def targets(text: str) -> set[str]:
    """Returns the files that a document links to, outside of code."""
    return {match[2] for match in LINK.finditer(FENCED.sub("", text)) if not re.match(r"[a-z]+:", match[2])}


def in_repository(document: str, target: str) -> str:
    """Returns the path in the repository of a relative link."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(document), target))


def with_site_links(document: str, text: str) -> str:
    """Returns a document whose links lead to pages of the site."""
    here = posixpath.dirname(site_path(document))

    def changed(match: re.Match[str]) -> str:
        if re.match(r"[a-z]+:", match[2]):
            return match[0]
        there = site_path(in_repository(document, match[2]))
        return f"{match[1]}{posixpath.relpath(there, here or '.')}{match[3]}"

    pieces = re.split(r"(^```.*?^```)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(piece if piece.startswith("```") else LINK.sub(changed, piece) for piece in pieces)


def source_page(root: Path, path: str) -> str:
    """Returns the page of a source file that a document links to."""
    text = (root / path).read_text()
    fence = "````"
    return f"# {path}\n\n{fence}{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}\n{fence}\n"


def documents(root: Path) -> dict[str, str]:
    """Returns the documents of the repository that become pages, by their path."""
    found = {file: (root / file).read_text() for file in PROJECT}
    return found | {str(file.relative_to(root)): file.read_text() for file in sorted((root / "docs").rglob("*.md"))}


def pages(root: Path) -> dict[str, str]:
    """Returns all pages of the site by their place in it."""
    found = documents(root)
    linked = {in_repository(document, target) for document, text in found.items() for target in targets(text)}
    sources = [path for path in sorted(linked) if path not in found and not path.startswith("docs/")]
    made = {site_path(path): source_page(root, path) for path in sources}
    made |= docstring_pages(root / "src/memlake")
    written = {site_path(document): separated(with_site_links(document, text)) for document, text in found.items()}
    return written | made
