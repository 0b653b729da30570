"""The pages of the site that show the docstrings of the public names, one page per module."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# The modules that people import by their names. What is public in them is their `__all__`.
MODULES = (
    "memlake",
    "memlake.analysis",
    "memlake.cuda_core",
    "memlake.device",
    "memlake.driver",
    "memlake.emulator",
    "memlake.errors",
    "memlake.jobs",
    "memlake.libraries",
    "memlake.numba",
    "memlake.policies",
    "memlake.pool",
    "memlake.replaying",
    "memlake.sharing",
    "memlake.torch",
    "memlake.trace",
    "memlake.units",
    "memlake.vmm",
)
# `import memlake` offers the names of other modules; their docstrings are on the pages of those.
PACKAGE = "memlake"


def file_of(package: Path, module: str) -> Path:
    """Returns the source file of a module of the package."""
    parts = module.split(".")[1:]
    folder = package.joinpath(*parts)
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def public_names(source: Path) -> list[str]:
    """Returns the `__all__` of a source file, in its order."""
    for statement in ast.parse(source.read_text()).body:
        if isinstance(statement, ast.Assign) and [ast.unparse(target) for target in statement.targets] == ["__all__"]:
            return [str(name) for name in ast.literal_eval(statement.value)]
    raise ValueError(f"{source} has no __all__, so its public names are not known")


def imported_from(source: Path) -> dict[str, str]:
    """Returns the modules from which a source file imports its names."""
    imports = [node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.ImportFrom)]
    return {name.asname or name.name: str(node.module) for node in imports for name in node.names}


def shown_elsewhere(package: Path, name: str) -> str | None:
    """Returns the module on whose page a name of `import memlake` is shown; None if it is shown only there."""
    if f"{PACKAGE}.{name}" in MODULES:
        return f"{PACKAGE}.{name}"
    origin = imported_from(file_of(package, PACKAGE)).get(name, PACKAGE)
    for module in MODULES:
        if module != PACKAGE and (origin == module or origin.startswith(module + ".")):
            return module if name in public_names(file_of(package, module)) else None
    return None


def page_of(package: Path, module: str) -> str:
    """Returns the page of one module as Markdown, in which mkdocstrings replaces each `:::` by the docstring."""
    names = [name for name in public_names(file_of(package, module)) if not name.startswith("__")]
    elsewhere = {name: shown_elsewhere(package, name) for name in names} if module == PACKAGE else {}
    rows = [f"| `{name}` | [{other}]({other}.md) |" for name, other in elsewhere.items() if other]
    table = "\n".join(["| name | page |", "|---|---|", *rows]) + "\n\n" if rows else ""
    shown = "\n\n".join(f"::: {module}.{name}" for name in names if not elsewhere.get(name))
    return f"# {module}\n\nThe docstrings of `{module}`, as `help()` shows them.\n\n{table}{shown}\n"


def docstring_pages(package: Path) -> dict[str, str]:
    """Returns the pages by their place in the site."""
    return {f"reference/python/{module}.md": page_of(package, module) for module in MODULES}
