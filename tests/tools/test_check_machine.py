"""What a machine lacks is said in one sentence, before anything is made."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "check_machine.sh"


def run(path: str, *arguments: str, **environment: str) -> tuple[int, str]:
    shell = shutil.which("sh")
    assert shell is not None
    done = subprocess.run(
        [shell, str(SCRIPT), *arguments], env={"PATH": path, **environment}, capture_output=True, text=True, check=False
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder of programs with nothing in it but what any Linux has."""
    uname = shutil.which("uname")
    assert uname is not None
    (tmp_path / "uname").symlink_to(uname)
    return tmp_path


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!{shutil.which('sh')}\n{text}\n")
    (folder / name).chmod(0o755)


def test_this_machine_lacks_nothing():
    assert run(os.environ["PATH"], sys.executable) == (0, "")


def test_all_that_is_missing_is_one_sentence(bare):
    status, said = run(str(bare))
    assert status == 1
    assert said.startswith(
        "memlake cannot be built here, because this machine lacks: Python 3.10 or newer (python3 was"
    )
    assert "; a C++20 compiler (g++ was not found" in said
    assert said.count("\n") == 1


def test_an_old_python(bare):
    program(bare, "python3", 'test "$1" = --version && echo Python 3.8.0 || exit 1')
    status, said = run(str(bare), CXX="true")
    assert status == 1
    assert "Python 3.10 or newer (python3 is Python 3.8.0" in said


def test_python_without_venv_and_headers(bare):
    program(bare, "python3", 'case "$2" in *ensurepip*) exit 1;; *sysconfig*) echo /nowhere;; esac')
    status, said = run(str(bare))
    assert status == 1
    assert "Python's venv module (on Debian and Ubuntu: the package python3-venv)" in said
    assert "the Python headers (/nowhere/Python.h" in said


def test_a_compiler_without_cxx20(bare):
    program(bare, "g++", "exit 1")
    status, said = run(str(bare), sys.executable)
    assert status == 1
    assert said.endswith("lacks: a C++20 compiler (g++ does not compile C++20; g++ 11 or newer).\n")
