"""The Pythons of this machine: those that wheels are built with, and those that a finished wheel is tried on."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

OLDEST = (3, 10)  # `requires-python` of pyproject.toml
STABLE_ABI_FROM = (3, 12)  # nanobind's oldest Python with the stable ABI; `wheel.py-api` of pyproject.toml
NEWEST_ASKED = 20

_ASK = """
import json, os, sys, sysconfig
print(json.dumps({
    "version": sys.version_info[:3],
    "executable": os.path.realpath(sys.executable),
    "has_headers": os.path.isfile(os.path.join(sysconfig.get_path("include"), "Python.h")),
    "is_free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
}))
"""


@dataclass(frozen=True)
class Python:
    """One interpreter."""

    executable: Path
    version: tuple[int, int, int]
    has_headers: bool

    @property
    def minor(self) -> tuple[int, int]:
        """Its version without the last number."""
        return self.version[:2]

    def __str__(self) -> str:
        """Returns its name for people."""
        return f"Python {'.'.join(map(str, self.version))} ({self.executable})"


def ask(executable: Path) -> Python | None:
    """Asks a file whether it is a Python that memlake supports; None if not."""
    try:
        done = subprocess.run([executable, "-I", "-c", _ASK], capture_output=True, text=True, check=False, timeout=60)
        answer = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    first, second, third = answer["version"]
    if (first, second) < OLDEST or answer["is_free_threaded"]:
        return None
    return Python(Path(answer["executable"]), (first, second, third), answer["has_headers"])


def candidates(path: str, pyenv: Path) -> list[Path]:
    """Returns the files that may be a Python: those of pyenv, then those on a search path."""
    names = ["python3", *(f"python3.{minor}" for minor in range(OLDEST[1], NEWEST_ASKED))]
    found = sorted(pyenv.glob("versions/*/bin/python3"))
    for folder in path.split(os.pathsep):
        if folder and not Path(folder).is_relative_to(pyenv):  # pyenv's programs there run one of its versions
            found += [Path(folder, name) for name in names if Path(folder, name).is_file()]
    return found


def pythons() -> list[Python]:
    """Returns every supported Python of this machine once, oldest first."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    search = os.environ.get("PATH", "") + os.pathsep + "/usr/bin" + os.pathsep + "/usr/local/bin"
    found = {python.executable: python for file in candidates(search, pyenv) if (python := ask(file))}
    return sorted(found.values(), key=lambda python: (python.version, python.executable))


def builders(available: list[Python]) -> list[Python]:
    """Returns the Pythons to build a wheel with: one for each version without a stable ABI, one for all with it."""
    chosen: dict[tuple[int, int], Python] = {}
    for python in sorted(available, key=lambda python: python.version):
        if python.has_headers:
            chosen.setdefault(min(python.minor, STABLE_ABI_FROM), python)
    return list(chosen.values())
