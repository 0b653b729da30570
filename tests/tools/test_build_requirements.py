"""What pip installs before the build is what pyproject.toml declares, and cmake and ninja where they are missing."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "build_requirements.py"


def requirements(path: str) -> list[str]:
    done = subprocess.run([sys.executable, str(SCRIPT)], env={"PATH": path}, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_declared_ones_come_first():
    names = [requirement.rstrip("0123456789.,<>=") for requirement in requirements(os.environ["PATH"])]
    assert names[:2] == ["scikit-build-core", "nanobind"]


def test_cmake_and_ninja_are_added_where_there_are_none(tmp_path):
    assert requirements(str(tmp_path))[2:] == ["cmake>=3.24", "ninja"]


def test_an_old_cmake_is_not_enough(tmp_path):
    (tmp_path / "cmake").write_text("#!/bin/sh\necho cmake version 3.16.3\n")
    (tmp_path / "cmake").chmod(0o755)
    assert requirements(str(tmp_path))[2:] == ["cmake>=3.24", "ninja"]
