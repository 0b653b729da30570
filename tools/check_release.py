"""The versions that a release states agree: those of pyproject.toml, of CHANGELOG.md and of the C header.

`pyproject.toml` has the version of the package; CMake and `memlake.__version__` get it from there. `CHANGELOG.md`
begins with a section for what is not released yet, and its newest release is this version, with a date. The highest C
ABI version that it names is that of the header, so that no version of the ABI comes without a line there.
"""

import datetime
import re
from collections.abc import Iterator
from pathlib import Path

from source_tree import Finding, report, root_from_arguments

CHANGELOG = Path("CHANGELOG.md")
PROJECT = Path("pyproject.toml")
HEADER = Path("core/abi/include/memlake.h")

SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
RELEASE = re.compile(r"\[(\d+\.\d+\.\d+)\] - (\S+)")


def is_date(text: str) -> bool:
    """Whether a text is a date as the changelog writes it: 2026-11-18."""
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def version_of(project: str) -> str:
    """The version of the table [project]. Python 3.10 has no reader of TOML."""
    table = project.partition("[project]\n")[2].partition("\n[")[0]
    found = re.search(r'^version = "([^"]+)"$', table, re.MULTILINE)
    return found[1] if found else ""


def abi_version_of(header: str) -> int:
    """The version that the C header states, 0 if it states none."""
    found = re.search(r"^#define MEMLAKE_ABI_VERSION (\d+)$", header, re.MULTILINE)
    return int(found[1]) if found else 0


def findings_in_sections(text: str, version: str) -> Iterator[Finding]:
    """The sections: *Unreleased* first, then the releases, the newest with the version of the package."""
    sections = [(text.count("\n", 0, found.start()) + 1, found[1]) for found in SECTION.finditer(text)]
    if not sections or sections[0][1] != "[Unreleased]":
        yield Finding(CHANGELOG, sections[0][0] if sections else 1, "does not begin with the section [Unreleased]")
    releases = []
    for line, title in sections:
        if title == "[Unreleased]":
            continue
        release = RELEASE.fullmatch(title)
        if release is None or not is_date(release[2]):
            yield Finding(CHANGELOG, line, f'"{title}" is not "[1.2.3] - 2026-01-31"')
        else:
            releases.append((line, release[1]))
    if not releases:
        yield Finding(CHANGELOG, 1, f"has no release; {PROJECT} has the version {version}")
    elif releases[0][1] != version:
        yield Finding(CHANGELOG, releases[0][0], f"the newest release is {releases[0][1]}; {PROJECT} has {version}")


def findings(root: Path) -> Iterator[Finding]:
    """Versions that differ."""
    text = (root / CHANGELOG).read_text()
    yield from findings_in_sections(text, version_of((root / PROJECT).read_text()))
    stated = abi_version_of((root / HEADER).read_text())
    named = max(map(int, re.findall(r"C ABI version (\d+)", text)), default=0)
    if named != stated:
        yield Finding(CHANGELOG, 1, f"names C ABI version {named}; {HEADER} has {stated}")


if __name__ == "__main__":
    raise SystemExit(report(findings(root_from_arguments())))
