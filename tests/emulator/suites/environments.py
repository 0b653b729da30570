"""The virtual environments of the suites, made from `requirements/` in build/suites/."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from memlake.libraries import cuda_library_directory

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parents[2] / "build" / "suites"


class UnavailableError(Exception):
    """The packages of a suite cannot be installed here."""


def environment(name: str) -> Path:
    """The folder of the virtual environment; makes it if it does not exist or its requirements have changed.

    MEMLAKE_SUITES_VENV_<NAME>, with _ for each -, names an environment that exists already.
    """
    given = os.environ.get(f"MEMLAKE_SUITES_VENV_{name.upper().replace('-', '_')}")
    if given:
        return Path(given)
    requirements = HERE / "requirements" / f"{name}.txt"
    folder, stamp = ENVIRONMENTS / name, ENVIRONMENTS / f"{name}.installed"
    if stamp.exists() and stamp.read_text() == requirements.read_text():
        return folder
    print(f"making {folder} from {requirements.name}", flush=True)
    stamp.unlink(missing_ok=True)
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    log = ENVIRONMENTS / f"{name}.log"
    with log.open("wb") as output:
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-r", requirements],
        ):
            # A package that is compiled against the driver is linked with the emulator's libcuda.so.
            with_driver = {**os.environ, "LIBRARY_PATH": str(cuda_library_directory())}
            done = subprocess.run(command, env=with_driver, stdout=output, stderr=subprocess.STDOUT, check=False)
            if done.returncode != 0:
                raise UnavailableError(f"the packages of {requirements.name} cannot be installed; see {log}")
    stamp.write_text(requirements.read_text())
    return folder
