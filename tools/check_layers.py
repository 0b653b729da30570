"""Checks the layers of the core and the rooms of the emulator: a folder includes only itself and the folders before it
in the list of core/README.md or emulator/README.md. Folders on one line of the list are siblings and do not include
each other. Every source file is in a folder of the list, and includes are written from the include root, core/ or
emulator/.

The core does not know the emulator. The emulator must not depend on the core, so it may include only the lowest layer
and the two files that describe CUDA. Both include roots are on the path of the emulator's files, so no room of the
emulator may have the name of a folder of the core.
Bindings may include all of the core. The core and the emulator include neither Python's nor NVIDIA's headers.

The Python package has floors: src/memlake/README.md lists its packages and modules, lowest floor first. Each imports
only itself and those of lower floors. `__init__.py` is the list of public names and may import all of them. A call of
`import_module` is an import, too; only `printable.py` may load a table with it, and `trace/` a replay. No package or
module has the name of a public function or class: importing it would replace the function in `memlake`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from source_tree import Finding, files, report, root_from_arguments

CPP_PARTS = ("core", "emulator")
SUFFIXES = (".cpp", ".hpp", ".h", ".inc")
# These files replace cuda.h in the whole project, so they may include only the lowest layer and each other.
CUDA_DESCRIPTION = {"driver/cuda_abi.hpp", "driver/results.inc"}
PYTHON_HEADERS = ("Python.h", "nanobind/", "pybind11/")
NVIDIA_HEADERS = ("cuda.h", "cuda_runtime", "cudaTypedefs.h")

PACKAGE = Path("src/memlake")
PACKAGE_PAGE = PACKAGE / "README.md"
# The list of public names is above all floors, the core below them.
PUBLIC_NAMES, CORE = "__init__", "_native"
BY_NAME = {"import_module", "__import__"}
# src/memlake/README.md has the reason.
LOADED_BY_NAME = (("printable", "tables"), ("trace", "replaying"))

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
LAYER = re.compile(r"^\s*\d+\.\s+(.*)")
FOLDER = re.compile(r"[*`\[]+([a-z_/]+?)/[*`\]]+(,?)\s*")
FLOOR = re.compile(r"^(\d+)\.\s+(`.+?)\s+—")
FLOOR_MEMBER = re.compile(r"`(\w+)(?:/|\.py)`")


def stated_layers(page: str) -> dict[str, int]:
    """Returns the layer of each folder: its position in the numbered list of the page, the lowest layer first."""
    layers: dict[str, int] = {}
    for number, match in enumerate(filter(None, map(LAYER.match, page.splitlines()))):
        rest = match[1]
        while folder := FOLDER.match(rest):
            layers[folder[1]] = number
            rest = rest[folder.end() :]
            if not folder[2]:
                break
    return layers


def layer_of(path: str, layers: dict[str, int]) -> str | None:
    """Returns the deepest listed folder that contains a file, whose path begins at the include root."""
    parts = path.split("/")[:-1]
    candidates = ("/".join(parts[:depth]) for depth in range(len(parts), 0, -1))
    return next((candidate for candidate in candidates if candidate in layers), None)


def includes(text: str) -> Iterator[tuple[int, str]]:
    """Yields the line number and the target of each include."""
    for number, line in enumerate(text.splitlines(), start=1):
        if match := INCLUDE.match(line):
            yield number, match[1]


def order_objection(layer: str, target: str, target_layer: str, layers: dict[str, int]) -> str | None:
    """Returns why a file of this layer may not include a file of that layer of the same part; None if it may."""
    if layer == target_layer or layers[target_layer] < layers[layer]:
        return None
    if layers[target_layer] == layers[layer]:
        return f"includes {target}: {layer}/ and {target_layer}/ are siblings and must not know each other"
    allowed = [name for name, number in layers.items() if number < layers[layer] or name == layer]
    return f"includes {target}: {layer}/ may include only {', '.join(allowed)}"


def objection(root: Path, path: Path, target: str, layers: dict[str, dict[str, int]]) -> str | None:
    """Returns why this file of the core or the emulator may not include this target; None if it may."""
    part, inside, lowest = path.parts[0], path.relative_to(path.parts[0]).as_posix(), next(iter(layers["core"]))
    if target.startswith(PYTHON_HEADERS):
        return f"includes {target}: only bindings/ knows Python"
    if target.startswith(NVIDIA_HEADERS):
        return f"includes {target}: driver/cuda_abi.hpp describes CUDA here, so that no toolkit is needed"
    layer, target_layer = layer_of(inside, layers[part]), layer_of(target, layers[part])
    is_relative = target_layer is None and (root / path.parent / target).is_file()
    if is_relative or target.startswith(("core/", "emulator/")) or ".." in target.split("/"):
        return f"includes {target}: write it from the include root, {part}/ (as in base/bytes.hpp)"
    if part == "core" and layer_of(target, layers["emulator"]) is not None:
        return f"includes {target}: the core must not know the emulator"
    if inside in CUDA_DESCRIPTION and part == "core":
        if target_layer not in (None, lowest) and target not in CUDA_DESCRIPTION:
            return f"includes {target}: it stands for cuda.h and may use only {lowest}/"
        return None
    if layer is not None and target_layer is not None:
        return order_objection(layer, target, target_layer, layers[part])
    core_layer = layer_of(target, layers["core"])
    if part == "emulator" and core_layer not in (None, lowest) and target not in CUDA_DESCRIPTION:
        allowed_files = ", ".join([f"{lowest}/", *sorted(CUDA_DESCRIPTION)])
        return f"includes {target}: of the core the emulator may include only {allowed_files}"
    return None


def imports(text: str) -> Iterator[tuple[int, str]]:
    """Yields the line number and the imported part of memlake of each import, also of imports inside functions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            start = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            targets = [f"{start}{alias.name}.".split(".") for alias in node.names]
            for part in sorted({target[1] for target in targets if target[0] == "memlake"}):
                yield node.lineno, part


def imports_by_name(text: str) -> Iterator[tuple[int, str | None]]:
    """Yields the line number and the part of memlake of each import by name; None if the call does not show the part.

    The begin of the name must be a literal: ``import_module(f"memlake.tables.{name}")`` shows ``tables``.
    """
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function, name = node.func, node.args[0]
        if (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")) not in BY_NAME:
            continue
        literal = name.values[0] if isinstance(name, ast.JoinedStr) and name.values else name
        known = literal.value if isinstance(literal, ast.Constant) and isinstance(literal.value, str) else ""
        package, *rest = known.split(".")
        if package != "memlake":
            if known and literal is name:
                continue  # another package
            yield node.lineno, None
        elif literal is name or len(rest) > 1:
            yield node.lineno, rest[0] if rest else ""
        else:
            yield node.lineno, None


def stated_floors(page: str) -> list[tuple[str, int]]:
    """Returns each package and module of the numbered list of the page with its floor, in the order of the list."""
    stated = [match for line in page.splitlines() if (match := FLOOR.match(line))]
    return [(name, int(match[1])) for match in stated for name in FLOOR_MEMBER.findall(match[2])]


def import_objection(part: str, target: str, floors: dict[str, int]) -> str | None:
    """Returns why this part of the package may not import that one; None if it may."""
    if target in (part, CORE):
        return None
    if target not in floors:
        what = f"imports memlake.{target}" if target else "imports memlake"
        return f"{what}: import a name from the package that has it, not from the list of public names"
    if floors[target] > floors[part]:
        return f"imports memlake.{target}: {part} is below it and must not know it"
    if floors[target] == floors[part]:
        return f"imports memlake.{target}: {part} is on the same floor and must not know it"
    return None


def public_names(text: str) -> set[str]:
    """Returns the names that the list of public names takes from packages and modules, not these themselves."""
    lists = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.module]
    return {name.asname or name.name for node in lists if node.module != "memlake" for name in node.names}


def name_findings(root: Path, parts: set[str]) -> Iterator[Finding]:
    """Yields every package and module that has the name of a public function or class."""
    page = PACKAGE / f"{PUBLIC_NAMES}.py"
    for name in sorted(parts & public_names((root / page).read_text())):
        reason = f"memlake.{name} is a public name, and importing a package or module {name} would replace it"
        yield Finding(page, 1, reason)


def import_findings(root: Path) -> Iterator[Finding]:
    """Yields every import from the same or a higher floor, and every difference between the page and the package."""
    stated = stated_floors((root / PACKAGE_PAGE).read_text())
    floors = dict(stated)
    sources = [path for path in files(root, ".py") if PACKAGE in path.parents]
    parts = {path: path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in sources}
    for name in sorted({name for name, _ in stated if sum(name == other for other, _ in stated) > 1}):
        yield Finding(PACKAGE_PAGE, 1, f"states the floor of {name} more than once")
    for name in sorted(floors.keys() - parts.values()):
        yield Finding(PACKAGE_PAGE, 1, f"states the floor of {name}, but there is no such package or module")
    for name in sorted(set(parts.values()) - floors.keys() - {PUBLIC_NAMES}):
        yield Finding(PACKAGE_PAGE, 1, f"does not say on which floor {name} is: add it to the numbered list")
    yield from name_findings(root, set(parts.values()))
    for path, part in parts.items():
        if part in floors:
            for line, named in imports_by_name((root / path).read_text()):
                if named is None:
                    yield Finding(path, line, "imports a module by a name that this check cannot read: use import")
                elif (part, named) not in LOADED_BY_NAME and (reason := import_objection(part, named, floors)):
                    yield Finding(path, line, reason)
            for line, target in imports((root / path).read_text()):
                if reason := import_objection(part, target, floors):
                    yield Finding(path, line, reason)


def folder_findings(root: Path, part: str, layers: dict[str, int]) -> Iterator[Finding]:
    """Yields every difference between the page of a part and its folders."""
    page = Path(part) / "README.md"
    sources = [path.relative_to(part) for path in files(root, *SUFFIXES) if path.parts[0] == part]
    for path in sources:
        if path.parent == Path():
            yield Finding(part / path, 1, f"is in no folder: move it into one of those that {page} lists")
    for layer in layers:
        if not (root / part / layer).is_dir():
            yield Finding(page, 1, f"states the layer {layer}, but there is no folder {part}/{layer}")
    # A folder inside a listed folder belongs to it, unless one of its siblings is listed: then it needs its own line.
    parents = {Path(layer).parent.as_posix() for layer in layers}
    for folder in sorted({path.parent.as_posix() for path in sources if path.parent != Path()} - set(layers)):
        if layer_of(f"{folder}/x", layers) is None or Path(folder).parent.as_posix() in parents - {"."}:
            yield Finding(page, 1, f"does not say which layer {part}/{folder} is: add it to the numbered list")


def include_findings(root: Path) -> Iterator[Finding]:
    """Yields every include that breaks a rule, and every difference between the pages and the folders."""
    layers = {part: stated_layers((root / part / "README.md").read_text()) for part in CPP_PARTS}
    for part in CPP_PARTS:
        yield from folder_findings(root, part, layers[part])
    tops = {part: {layer.split("/")[0] for layer in layers[part]} for part in CPP_PARTS}
    for name in sorted(tops["core"] & tops["emulator"]):
        message = f"has the room {name}, which is also a folder of the core: an include of {name}/ would be ambiguous"
        yield Finding(Path("emulator/README.md"), 1, message)
    for path in files(root, *SUFFIXES):
        if path.parts[0] in CPP_PARTS:
            for line, target in includes((root / path).read_text()):
                if reason := objection(root, path, target, layers):
                    yield Finding(path, line, reason)


def findings(root: Path) -> Iterator[Finding]:
    """Yields everything that breaks a rule of the layers."""
    yield from include_findings(root)
    yield from import_findings(root)


if __name__ == "__main__":
    raise SystemExit(report(findings(root_from_arguments())))
