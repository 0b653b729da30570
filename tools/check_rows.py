"""The rows of docs/where_changes_go.md name the files that such a change touches, all of them.

Each rule below names an earlier change of one kind and the words that this change left behind. The files that contain
these words, and the files with these words in their path, are the files that the change touched. The row must name each
of them, and must not name others. In a path of a row, NAME stands for the name of what is new; a folder stands for the
files in it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from source_tree import Finding, files, report, root_from_arguments

GUIDE = Path("docs/where_changes_go.md")
SCOPE = (
    "core",
    "bindings",
    "emulator",
    "src",
    "docs/glossary.md",
    "docs/guides",
    "docs/reference",
    "pyproject.toml",
    "CMakeLists.txt",
)
SUFFIXES = (".cpp", ".hpp", ".h", ".inc", ".py", ".pyi", ".md", ".toml", "CMakeLists.txt")


@dataclass(frozen=True)
class Rule:
    """`wish`: the first words of the row. `example`: the earlier change, with its name last."""

    wish: str
    example: str
    words: str

    @property
    def name(self) -> str:
        """What stands in the place of NAME in a path."""
        return self.example.split()[-1]


RULES = (
    Rule("offer a C function", "the C function memlake_pool_free_on", r"\bmemlake_pool_free_on\b"),
    Rule(
        "offer a policy under a name",
        "the policy stitch",
        r"\bStitch(Space|Options)|\bstitch_options|POLICY\(stitch\)|policies/stitch/|^\| `stitch` \|"
        r"|\(`\"stitch\"`\)|`stitch`, `",
    ),
    Rule("give a pool memory of another kind", "the space shareable", r"\bShareableSpace|\bis_shareable"),
    Rule("try one more thing", "the rung spill", r"\bRung::spill\b|\bWhat::spill\b|^  +spill,"),
    Rule("count one more statistic of pools", "the statistic frees", r"COUNT\(frees\)|\bstats_\.frees|\bnum_frees"),
    Rule("tell one more thing about a shortage", "the figure held_by_other_pools", r"\bheld_by_other_pools\b"),
    Rule("read another kind of trace", "the reader of rmm", r"trace[./]from_rmm|RMM's (CSV )?logs|\bRMM logs?\b"),
    Rule("show a result in another way", "the table health", r"tables[./]health"),
    Rule(
        "work inside another program",
        "the integration cuda_core",
        r"integrations[./]cuda_core|`memlake\.cuda_core|^\d+\. .*`cuda_core\.py`",
    ),
    Rule("offer a module that people import", "the module vmm", r"src/memlake/vmm/|^\d+\. `driver\.py`.*`vmm/`"),
    Rule(
        "run on a driver of another vendor",
        "the driver emulator",
        r"add_library\(memlake_emulator |add_subdirectory\(emulator\)|libmemlake_emulator\.so"
        r"|\"emulated\"|`emulated`, or ",
    ),
    Rule("add a command to `memlake`", "the command doctor", r"cli/doctor\.py|^_COMMANDS|^## `memlake doctor"),
)


def rows(guide: str) -> Iterator[tuple[int, str, list[str]]]:
    """The line, the first cell and the paths of the second cell of each row of the guide's tables."""
    for number, line in enumerate(guide.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 3:
            yield number, cells[0], re.findall(r"`([\w./-]*(?:/|\.\w+))`", cells[1])


def texts_in_scope(root: Path) -> dict[str, str]:
    """The files that a change may touch, each with its text."""
    names = [path.as_posix() for path in files(root, *SUFFIXES)]
    in_scope = [name for name in names if any(name == place or name.startswith(f"{place}/") for place in SCOPE)]
    return {name: (root / name).read_text() for name in in_scope}


def touched(texts: dict[str, str], words: re.Pattern[str]) -> list[str]:
    """The files in which an earlier change is seen."""
    return [name for name, text in texts.items() if words.search(name) or words.search(text)]


def covers(path: str, file: str) -> bool:
    """Whether a path of a row means this file."""
    return file.startswith(path) if path.endswith("/") else file == path


def findings(root: Path) -> Iterator[Finding]:
    """Rows that are missing, that leave a file out, or that name too much."""
    texts = texts_in_scope(root)
    by_wish = {wish: (line, paths) for line, wish, paths in rows((root / GUIDE).read_text())}
    for rule in RULES:
        wish = next((wish for wish in by_wish if wish.startswith(rule.wish)), None)
        if wish is None:
            yield Finding(GUIDE, 1, f'has no row "{rule.wish} ..."')
            continue
        line, paths = by_wish[wish]
        named = [path.replace("NAME", rule.name) for path in paths]
        found = touched(texts, re.compile(rule.words, re.MULTILINE))
        for file in found:
            if not any(covers(path, file) for path in named):
                yield Finding(GUIDE, line, f'"{wish}" does not name {file}, which {rule.example} touches')
        for path in named:
            if not any(covers(path, file) for file in found):
                yield Finding(GUIDE, line, f'"{wish}" names {path}, which {rule.example} does not touch')


if __name__ == "__main__":
    raise SystemExit(report(findings(root_from_arguments())))
