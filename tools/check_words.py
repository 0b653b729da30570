"""Checks that the words in `code` in the "Not" column of docs/glossary.md do not appear in the project.

The glossary is the only list. A word there in plain letters has other valid uses (a "page" of the host), so it is not
checked. A word in `code` is wrong everywhere, in names and in prose. `PhyBlock`, `phy_block` and "phy block" are the
same word.

The glossary itself defines each word once: the check rejects a second row of a word, also if a note in brackets tells
the rows apart, and a definition with a second meaning behind the first ("... . In the emulator: ...").

The check also rejects files and folders with names such as utils or common, which do not say what they contain.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from source_tree import Finding, files, report, root_from_arguments

GLOSSARY = Path("docs/glossary.md")
SUFFIXES = (".py", ".pyi", ".cpp", ".hpp", ".h", ".inc", ".md", ".toml", ".txt", ".sh", "Makefile")

# "In `lake`: ..." at the beginning of a definition says where the word is used. Behind a sentence it begins a second
# meaning.
SECOND_MEANING = re.compile(r"[.;] (?:In|For|Of) [^.;:]+: ")

# (folder or file, word): the reason why the word is allowed there.
ALLOWED = {
    ("tests/tools", "*"): "the cases that this check must reject",
    ("pyproject.toml", "backend"): "the key that Python's packaging standard gives to the build system",
    ("core/policies/torch", "backend"): "a key of PyTorch's own configuration string",
    ("tests/unit/policies", "backend"): "the same, tested",
    ("tests/native/test_abi_conf.cpp", "backend"): "the same, in C",
    ("docs/reference/policies.md", "backend"): "the same, described",
    ("src/memlake/torch/installing.py", "backend"): "PyTorch's word for the kind of its allocator",
    ("docs/guides/pytorch.md", "backend"): "the same, described",
    ("tests/peers", "backend"): "an argument and a function of PyTorch",
    ("docs/guides/gmlake_names.md", "PhyBlock"): "a name of the GMLake tutorial, beside ours",
    ("tests/unit/test_gmlake_names.py", "PhyBlock"): "the same, tested",
    ("docs/guides/gmlake_names.md", "pBlock"): "a name of the GMLake paper, beside ours",
    ("docs/guides/gmlake_names.md", "sBlock"): "a name of the GMLake paper, beside ours",
    ("emulator", "arena"): "the emulator's one window of addresses, which is not a segment",
    ("tests/emulator/native", "arena"): "the same, tested",
    ("emulator", "slab"): "where the emulator keeps small cuMemAlloc allocations, which is not a segment",
    ("tests", "strategy"): "Hypothesis calls its generators strategies",
    ("tools/check_words.py", "*"): "this list",
}
DRAWERS = {"util", "utils", "common", "helpers", "misc", "internal"}
# The only allowed folder of this kind: code that several tests share.
ALLOWED_DRAWER = Path("tests/helpers")


def rows_of(glossary: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the line and the four cells of each row of the glossary."""
    for number, line in enumerate(glossary.splitlines(), start=1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4:
            yield number, cells


def unwanted(glossary: str) -> dict[str, str]:
    """Returns each checked word of the "Not" column with the word to use instead."""
    return {word: cells[0].strip("*") for _, cells in rows_of(glossary) for word in re.findall(r"`([^`]+)`", cells[3])}


def second_definitions(glossary: str) -> Iterator[Finding]:
    """Yields every definition of a word that the glossary has defined before."""
    lines: dict[str, int] = {}
    for number, cells in rows_of(glossary):
        word = re.sub(r"\(.*?\)", "", cells[0]).replace("*", "").strip().lower()
        if word in lines:
            yield Finding(GLOSSARY, number, f'"{word}" is defined in line {lines[word]}: give this thing another word')
        elif SECOND_MEANING.search(cells[1]):
            yield Finding(GLOSSARY, number, f'"{word}" gets a second meaning: give that thing a row and another word')
        lines.setdefault(word, number)


def pieces(word: str) -> list[str]:
    """Returns the lower-case parts of a name: PhyBlock, phy_block and "phy block" all give phy, block."""
    return [piece.lower() for piece in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", word)]


def pattern(word: str) -> re.Pattern[str]:
    """Returns a pattern that finds the word in prose and inside names, in the singular and the plural."""
    parts = pieces(word)
    in_prose_or_snake = "[ _-]?".join(parts)
    return re.compile(rf"(?<![a-z]){in_prose_or_snake}s?(?![a-z])", re.IGNORECASE)


def is_allowed(path: Path, word: str) -> bool:
    """Returns True if `ALLOWED` permits this word in this file."""
    return any(
        (path == Path(place) or Path(place) in path.parents) and allowed in (word, "*") for place, allowed in ALLOWED
    )


def searched(line: str) -> str:
    """Removes the file names from a line, because each file's own name is checked once, and separates the parts of
    names in camel case."""
    without_files = re.sub(r"[\w./-]+\.(?:cpp|hpp|h|inc|py|pyi|md)\b", "", line)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", without_files)


def is_drawer(path: Path) -> bool:
    """Returns True if the name of the file or of one of its folders does not say what it contains."""
    names = {*path.parent.parts, path.stem}
    return bool(names & DRAWERS) and ALLOWED_DRAWER not in path.parents


def findings(root: Path) -> Iterator[Finding]:
    """Yields every unwanted word in a file's name or in its text."""
    glossary = (root / GLOSSARY).read_text()
    yield from second_definitions(glossary)
    words = unwanted(glossary)
    patterns = {word: pattern(word) for word in words}
    for path in files(root, *SUFFIXES):
        if path == GLOSSARY:
            continue
        if is_drawer(path):
            yield Finding(path, 1, "is a drawer: name it by the noun that is in it")
        name = " ".join([*path.parent.parts, path.stem])
        lines = [name, *(root / path).read_text().splitlines()]
        for number, line in enumerate(map(searched, lines)):
            for word, instead in words.items():
                if patterns[word].search(line) and not is_allowed(path, word):
                    yield Finding(path, max(number, 1), f'"{word}" is not our word; the glossary says "{instead}"')


if __name__ == "__main__":
    raise SystemExit(report(findings(root_from_arguments())))
