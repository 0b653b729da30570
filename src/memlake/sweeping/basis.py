"""The basis of results: what decides the figures of a replay beside the file and the setting.

Two programs with one version number may replay differently, for instance two builds of a development version. A result
is therefore known by a digest of the code that makes it, and not by the version alone.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

from memlake._native import __version__
from memlake.libraries import native_library
from memlake.replaying.costs import apply_costs_of_environment, default_costs

__all__ = ["basis_of_results"]

# What a task runs, in Python. The core is one library; the modules between both have no logic.
_REPLAYING = ("analysis", "policies", "replaying", "sweeping", "trace", "units.py")


def basis_of_results() -> str:
    """Returns a text that differs if memlake's version, its code that replays, or the costs of driver calls differ.

    Raises:
        ConfigError: if ``MEMLAKE_COSTS`` names a file that cannot be used.
    """
    apply_costs_of_environment()
    costs = json.dumps(default_costs(), sort_keys=True)
    return f"{__version__} {hashlib.sha256(f'{_code_digest()} {costs}'.encode()).hexdigest()[:16]}"


@cache
def _code_digest() -> str:
    package = Path(__file__).parents[1]
    sources = [path for name in _REPLAYING for path in _python_files(package / name)]
    found = hashlib.sha256(Path(native_library()).read_bytes())
    for path in sorted(sources):
        content = path.read_bytes()
        found.update(f"{path.relative_to(package)} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def _python_files(path: Path) -> list[Path]:
    return list(path.rglob("*.py")) if path.is_dir() else [path]
