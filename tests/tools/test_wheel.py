"""The parts of `make wheel`, and what a machine without a compiler is told.

The wheels themselves take minutes to build: `make wheel` builds them and tries each on every Python.
"""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"
sys.path.insert(0, str(TOOLS / "wheel"))

from machine_paths import machine_paths  # noqa: E402
from pythons import Python, ask, builders, candidates  # noqa: E402


def test_a_path_of_the_machine_in_a_wheel_is_found(tmp_path):
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("memlake/lib/a.so", b"\x00/home/builder/memlake/core/x.cpp\x00")
        archive.writestr("memlake/clean.py", b"path = '/usr/lib'")
    assert machine_paths(wheel, [Path("/home/builder")]) == ["a.whl: memlake/lib/a.so has the path /home/builder"]
    assert machine_paths(wheel, [Path("/home/other")]) == []


def test_one_wheel_for_each_python_without_the_stable_abi_and_one_for_all_others():
    def python(*version, headers=True):
        return Python(Path("/", *map(str, version)), version, headers)

    available = [python(3, 10, 1), python(3, 11, 2), python(3, 11, 7), python(3, 12, 1), python(3, 13, 0)]
    assert [one.version for one in builders(available)] == [(3, 10, 1), (3, 11, 2), (3, 12, 1)]
    assert [one.version for one in builders([python(3, 12, 1, headers=False), python(3, 13, 0)])] == [(3, 13, 0)]
    assert builders([python(3, 10, 1, headers=False)]) == []


def test_this_python_is_known_and_what_is_no_python_is_not(tmp_path):
    me = ask(Path(sys.executable))
    assert me is not None
    assert me.version == sys.version_info[:3]
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho Python 3.12\n")
    other.chmod(0o755)
    assert candidates(str(tmp_path), tmp_path / "no_pyenv") == [other]
    assert ask(other) is None


def build_hook(tmp_path, hook, path):
    """Runs a hook of the builder as pip does, with this PATH."""
    return subprocess.run(
        [sys.executable, "-c", f"import package_builder; package_builder.{hook}"],
        cwd=tmp_path,
        env={"PATH": path, "PYTHONPATH": str(TOOLS)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_machine_without_a_compiler_gets_one_sentence(tmp_path):
    uname = next(Path(folder, "uname") for folder in os.environ["PATH"].split(":") if Path(folder, "uname").exists())
    (tmp_path / "uname").symlink_to(uname)
    for hook in ("get_requires_for_build_wheel()", "build_wheel('.')"):
        done = build_hook(tmp_path, hook, str(tmp_path))
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.startswith(
            "memlake cannot be built here, because this machine lacks: a C++20 compiler (g++ was"
        )
        assert done.stderr.endswith(" A wheel of memlake needs none of this.\n")
        assert done.stderr.count("\n") == 1


def test_a_machine_with_a_compiler_is_asked_nothing(tmp_path):
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    done = build_hook(tmp_path, "get_requires_for_build_wheel()", os.environ["PATH"])
    assert (done.returncode, done.stderr) == (0, "")


def test_the_sdist_has_every_file_that_the_build_reads_and_no_other_folder(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, 'tools'); import package_builder as b; b.build_sdist({str(tmp_path)!r})",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (sdist,) = tmp_path.glob("memlake-*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {str(Path(*Path(name).parts[1:])) for name in archive.getnames()}
    needed = [
        str(path.relative_to(ROOT))
        for folder in ("core", "emulator", "bindings", "src")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "prebuilt" not in path.parts
    ]
    more = [
        "CMakeLists.txt",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "tools/package_builder.py",
        "tools/check_machine.sh",
    ]
    assert [name for name in (*needed, *more) if name not in inside] == []
    assert {Path(name).parts[0] for name in inside if name != "."}.isdisjoint({"build", "dist", ".venv", ".git", ".ci"})
