"""What pip runs to build memlake: scikit-build-core, which is asked only if this machine can build it.

pip runs it where there is no wheel for the machine. Without a compiler or without Python's headers CMake would print a
page, so the machine is checked first and what it lacks is one sentence.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from scikit_build_core import build as _scikit_build
from scikit_build_core.build import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def _check_machine() -> None:
    """Ends the process with a sentence if this machine cannot build memlake."""
    script = Path(__file__).with_name("check_machine.sh")
    done = subprocess.run(
        ["/bin/sh", script, sys.executable, "package"], stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{done.stderr.strip()} A wheel of memlake needs none of this.")


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Returns the further packages that the build needs; the first thing that pip asks for."""
    _check_machine()
    return list(_scikit_build.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """Returns the further packages that an editable build needs."""
    _check_machine()
    return list(_scikit_build.get_requires_for_build_editable(config_settings))


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Builds a wheel and returns its name."""
    _check_machine()
    return str(_scikit_build.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Builds an editable wheel and returns its name."""
    _check_machine()
    return str(_scikit_build.build_editable(wheel_directory, config_settings, metadata_directory))
