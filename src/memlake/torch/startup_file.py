"""The line that Python runs at its start: ``memlake torch enable`` writes it, ``memlake torch disable`` removes it."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from memlake.errors import ConfigError

__all__ = ["disable", "enable", "startup_file"]

# Python runs the lines of a .pth file that begin with "import". Without the variable this one only looks for it.
_LINE = (
    "import os; 'MEMLAKE_TORCH' in os.environ and "
    "__import__('memlake.torch.startup', fromlist=['_']).install_after_import()\n"
)


def startup_file() -> Path:
    """Returns the file with the line, in the site-packages of this environment. It need not exist."""
    return Path(sysconfig.get_path("purelib")) / "memlake_torch.pth"


def enable() -> Path:
    """Writes the file, and returns it.

    Raises:
        ConfigError: if the folder cannot be written.
    """
    path = startup_file()
    try:
        path.write_text(_LINE)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}; use a virtual environment, or python -m memlake.torch"
        ) from error
    return path


def disable() -> bool:
    """Removes the file; False if there was none.

    Raises:
        ConfigError: if it cannot be removed.
    """
    path = startup_file()
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(f"{path} cannot be removed: {error.strerror}") from error
    return True
