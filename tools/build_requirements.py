"""Prints the packages that pip must install to build memlake without an isolated build environment.

The list is that of pyproject.toml, plus cmake and ninja if the system has none or too old a cmake. The build runs in
`.venv` and not in an isolated environment, which would be new every time, so that a second build takes seconds.
"""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

# CMake's version in `cmake_minimum_required` of CMakeLists.txt.
CMAKE_MINIMUM = (3, 24)


def declared(pyproject: str) -> list[str]:
    """Returns the requirements of the build system. Python 3.10 has no TOML parser, but the list is valid Python."""
    match = re.search(r"^\[build-system\].*?^requires = (\[.*?\])", pyproject, re.MULTILINE | re.DOTALL)
    if match is None:
        sys.exit("pyproject.toml has no [build-system] with a `requires` list")
    return [str(requirement) for requirement in ast.literal_eval(match[1])]


def cmake_version(cmake: str) -> tuple[int, int]:
    """Returns the major and minor version of a cmake; (0, 0) if it does not print one."""
    said = subprocess.run([cmake, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"version (\d+)\.(\d+)", said)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def build_programs() -> list[str]:
    """Returns cmake and ninja as pip requirements, if the system does not have them."""
    needed = []
    cmake = shutil.which("cmake")
    if cmake is None or cmake_version(cmake) < CMAKE_MINIMUM:
        needed.append("cmake>=" + ".".join(map(str, CMAKE_MINIMUM)))
    if shutil.which("ninja") is None:
        needed.append("ninja")
    return needed


if __name__ == "__main__":
    root = Path(__file__).resolve().parent.parent
    print("\n".join(declared((root / "pyproject.toml").read_text()) + build_programs()))
