import os
import subprocess
import sys

import pytest

PYTHON = sys.executable
"""A test of this folder may take `sys.executable` away (without_workers)."""


@pytest.fixture
def memlake_command(tmp_path):
    """Runs ``memlake`` as a program of its own."""

    def run(*arguments, **environment):
        return subprocess.run(
            [PYTHON, "-W", "error", "-m", "memlake", *arguments],
            env=os.environ | environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run
