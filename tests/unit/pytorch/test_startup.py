"""MEMLAKE_TORCH, ``memlake torch`` and ``python -m memlake.torch``: memlake in programs that do not know of it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from memlake.cli import main
from memlake.torch import startup_file

if TYPE_CHECKING:
    from pathlib import Path

    from memlake.torch.torch_build import TorchBuild


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that Python treats as site-packages, with the line in it."""
    monkeypatch.setattr(startup_file.sysconfig, "get_path", lambda _: str(tmp_path))
    startup_file.enable()
    return tmp_path


def run(site: Path, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a program as if Python had started with that folder."""
    environment = {**os.environ, **variables}
    start = f"import site; site.addsitedir({str(site)!r})\n"
    return subprocess.run(
        [sys.executable, "-c", start + code], env=environment, capture_output=True, text=True, check=True
    )


def test_without_the_variable_nothing_is_imported(site: Path) -> None:
    done = run(site, "import sys; print('memlake' in sys.modules)")

    assert (done.stdout, done.stderr) == ("False\n", "")


def test_with_the_variable_torch_is_installed_after_its_import(site: Path, build: TorchBuild) -> None:
    code = (
        "import sys; print('torch' in sys.modules)\n"
        "import torch; print(torch.ones(2).sum().item(), torch.__spec__.loader)"
    )
    done = run(site, code, MEMLAKE_TORCH="lake,limit:90%")

    assert done.stdout.startswith("False\n2.0 ")
    assert "memlake" not in done.stdout  # the module has its own loader
    assert done.stderr.startswith("memlake: MEMLAKE_TORCH=lake,limit:90%: this PyTorch")
    assert done.stderr.endswith("PyTorch keeps its own allocator.\n")
    assert done.stderr.count("\n") == 1


def test_a_mistake_in_the_variable_does_not_end_the_program(site: Path, build: TorchBuild) -> None:
    done = run(site, "import torch; print('runs')", MEMLAKE_TORCH="leak")

    assert done.stdout == "runs\n"
    assert "MEMLAKE_TORCH=leak" in done.stderr


def test_a_program_without_torch_is_left_alone(site: Path) -> None:
    done = run(site, "import json; print('runs')", MEMLAKE_TORCH="lake")

    assert (done.stdout, done.stderr) == ("runs\n", "")


def test_the_command_enables_and_disables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(startup_file.sysconfig, "get_path", lambda _: str(tmp_path))

    assert main(["torch", "enable"]) == 0
    assert "is written" in capsys.readouterr().out
    assert (tmp_path / "memlake_torch.pth").read_text().startswith("import os;")
    assert main(["torch", "disable"]) == 0
    assert "removed" in capsys.readouterr().out
    assert main(["torch", "disable"]) == 0
    assert "nothing was changed" in capsys.readouterr().out


def test_status_says_why_memlake_cannot_be_installed(build: TorchBuild, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["torch", "status"]) == 1
    assert "without CUDA" in capsys.readouterr().out


def run_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "memlake.torch", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_module_needs_a_program() -> None:
    done = run_module()

    assert done.returncode == 2
    assert "name the program to run" in done.stderr


def test_the_module_does_not_run_a_program_without_memlake(build: TorchBuild, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("print('ran')")
    done = run_module(str(program), "--lr", "1")

    assert (done.returncode, done.stdout) == (2, "")
    assert "without CUDA" in done.stderr


def test_the_module_refuses_a_wrong_policy() -> None:
    done = run_module("--policy", "leak", "train.py")

    assert done.returncode == 2
    assert "leak" in done.stderr
