"""Runs a check of tools/ as CI does, on a small tree made for the case."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def tree(tmp_path: Path) -> Callable[..., Path]:
    """tree({"core/x.hpp": "text", ...}) writes a small project and returns its root."""

    def write(contents: dict[str, str]) -> Path:
        for name, text in contents.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    return write


@pytest.fixture(scope="session")
def check() -> Callable[..., tuple[int, str]]:
    """check("check_layers.py", root) gives the exit status and everything that was printed."""

    def run(tool: str, *arguments: object) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, str(TOOLS / tool), *map(str, arguments)], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return run
