"""Every case the project owes has a test with its number, and says in its docstring what the contract says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

REQUIRED = set(range(1, 100))
"""100 needs the HIP profile."""


def cases() -> list[tuple[int, ast.FunctionDef]]:
    """All functions of this folder that carry a case's number, whether or not they were selected for this run."""
    found = []
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and (number := re.match(r"test_case_(\d{3})_", node.name)):
                found.append((int(number[1]), node))
    return found


def test_no_case_is_missing() -> None:
    assert {number for number, _ in cases()} == REQUIRED


def test_every_case_says_what_the_contract_says() -> None:
    assert [node.name for _, node in cases() if not ast.get_docstring(node)] == []


def test_names_are_unique() -> None:
    names = [node.name for _, node in cases()]
    assert len(names) == len(set(names))
