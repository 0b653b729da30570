"""Runs the contract's cases on this machine's real driver: `on_gpu.py [LIBRARY] [pytest arguments]`.

Without a usable driver it says so in one sentence and ends with 0: that is no failure of the project.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from helpers.abi_driver import Driver  # noqa: E402  (the line above makes it findable)
from helpers.abi_types import result_name  # noqa: E402


def why_unusable(library: str) -> str | None:
    """None if there is a driver with at least one device."""
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    driver = Driver(library)
    if (code := driver.cuInit(0)) != 0:
        return f"cuInit answered {result_name(code)}"
    if driver.device_count() == 0:
        return "the driver has no device"
    return None


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    library, *rest = arguments or ["libcuda.so.1"]
    reason = why_unusable(library)
    if reason:
        print(f"There is no CUDA driver to test on here: {reason}.")
        return 0
    command = [sys.executable, "-m", "pytest", str(HERE), "--driver", library, *rest]
    return subprocess.run(command, cwd=HERE.parent.parent, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
