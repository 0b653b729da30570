"""Checks that the package takes plurals and shortened texts from `memlake.wording` and sizes from `memlake.units`.

It finds the next plural, shortening or size that is made by hand: an "s" that depends on a number, a word that is
chosen by a comparison with 1, a slice with "..." behind it, and a number with " MiB" behind it.
"""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from source_tree import Finding, files, report, root_from_arguments

PACKAGE = Path("src/memlake")
# They have the functions that all other files use.
HOMES = {PACKAGE / "wording.py", PACKAGE / "units.py"}
ENDINGS = {"s", "es"}
VERBS = {("is", "are"), ("was", "were"), ("has", "have"), ("does", "do")}
SIZE = re.compile(r" ?[KMGTP]iB\b")

PLURAL = "makes a plural by hand: use counted() or plural() of memlake.wording"
SHORTENED = "shortens a text by hand: use shorten_end(), shorten_middle() or quoted() of memlake.wording"
FORMATTED = "formats a size by hand: use format_bytes() of memlake.units"


def text_of(node: ast.expr) -> str | None:
    """Returns the value of a literal text; None for other expressions."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def compares_with_one(node: ast.expr) -> bool:
    """Returns whether an expression compares something with 1."""
    return isinstance(node, ast.Compare) and any(
        isinstance(right, ast.Constant) and right.value == 1 and not isinstance(right.value, bool)
        for right in node.comparators
    )


def are_forms(first: str, second: str) -> bool:
    """Returns whether two words are the forms of one word for 1 and for more: "row" and "rows", "is" and "are"."""
    short, long = sorted((first.strip(), second.strip()), key=len)
    if {short, long} in [set(pair) for pair in VERBS]:
        return True
    short_words, long_words = short.split(), long.split()
    rest = long_words[-1] if long_words else ""
    last = short_words[-1] if short_words else ""
    return rest != last and rest.removeprefix(last) in ENDINGS


def is_plural(node: ast.expr) -> bool:
    """Returns whether an expression is a plural: ``"s" * (number != 1)``, ``"row" if number == 1 else "rows"``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = (node.left, node.right)
        return any(text_of(side) in ENDINGS for side in sides) and any(isinstance(side, ast.Compare) for side in sides)
    if isinstance(node, ast.IfExp) and compares_with_one(node.test):
        first, second = text_of(node.body), text_of(node.orelse)
        return first is not None and second is not None and are_forms(first, second)
    return False


def is_slice(node: ast.expr) -> bool:
    """Returns whether an expression is a part of a text: ``text[:57]``."""
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)


def parts_of(node: ast.expr) -> list[ast.expr]:
    """Returns the parts of a text that is put together: of an f-string, or of a sum."""
    if isinstance(node, ast.JoinedStr):
        return [value.value if isinstance(value, ast.FormattedValue) else value for value in node.values]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [node.left, node.right]
    return []


def objections(text: str) -> Iterator[tuple[int, str]]:
    """Yields the line and the reason of everything in a source file that is made by hand."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.expr):
            continue
        if is_plural(node):
            yield node.lineno, PLURAL
        parts = parts_of(node)
        for before, after in pairwise(parts):
            behind = text_of(after) or ""
            if is_slice(before) and behind.startswith(("...", "…")):
                yield node.lineno, SHORTENED
            if isinstance(node, ast.JoinedStr) and text_of(before) is None and SIZE.match(behind):
                yield node.lineno, FORMATTED


def findings(root: Path) -> Iterator[Finding]:
    """Yields every place of the package that makes by hand what a function of it makes."""
    for path in files(root, ".py"):
        if PACKAGE in path.parents and path not in HOMES:
            for line, reason in sorted(objections((root / path).read_text())):
                yield Finding(path, line, reason)


if __name__ == "__main__":
    raise SystemExit(report(findings(root_from_arguments())))
