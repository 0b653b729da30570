"""Every column that a table prints is explained in docs/reference/printed_numbers.md."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TABLES = ROOT / "src" / "memlake" / "tables"
PAGE = (ROOT / "docs" / "reference" / "printed_numbers.md").read_text()
# Columns whose names are data: names of policies, and of ranks.
WITHOUT_A_NAME = {"", "# allocated, - held and free, | the device's end"}


def headers_of(tree):
    """The texts that are given to ``Page.table`` as headers: in the call, or in a variable that it names."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        values = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                values[node.targets[0].id] = node.value
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "table":
                yield from texts_of(node.args[0], values)


def texts_of(node, values):
    """The texts in an expression, and in the variables that it names."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
        elif isinstance(part, ast.Name) and part.id in values:
            yield from texts_of(values[part.id], {name: value for name, value in values.items() if name != part.id})


COLUMNS = sorted(
    {
        (path.stem, header)
        for path in TABLES.glob("*.py")
        for header in headers_of(ast.parse(path.read_text()))
        if header not in WITHOUT_A_NAME
    }
)


def test_the_columns_are_found():
    found = {header for _, header in COLUMNS}
    assert {"held peak", "live/held", "ns/row", "over live", "smallest device", "decided by", "oldest, rows"} <= found


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_a_column_is_explained(table, column):
    words = column.removesuffix(", rows")
    assert f"`{words}`" in PAGE or f"| {words} |" in PAGE, f"{table} prints {column}"
