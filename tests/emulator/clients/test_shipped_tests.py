"""numba-cuda ships its tests. Those of its memory, which compile no kernel, run here on the emulator, unchanged."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

MODULES = [
    "test_array_attr",
    "test_cuda_auto_context",
    "test_cuda_memory",
    "test_cuda_ndarray.TestArrayMethod",
    "test_deallocations",
    "test_emm_plugins",
    "test_events",
    "test_host_alloc",
    "test_pinned",
    "test_reset_device",
    "test_select_device",
]
"""Of numba.cuda.tests.cudadrv. `make suites` runs all of them, also the tests that compile kernels."""
TESTS = 55
"""How many these are in numba-cuda 0.30.4."""


def is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@pytest.mark.skipif(not is_installed("numba_cuda"), reason="numba-cuda cannot be installed here")
@pytest.mark.skipif(not is_installed("filecheck"), reason="numba-cuda's tests need filecheck")
def test_the_memory_tests_of_numba_cuda_pass(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    emulate = [sys.executable, "-m", "memlake", "emulate", "--devices=2", "--memory=8GiB", f"--ledger={ledger}"]
    names = [f"numba.cuda.tests.cudadrv.{name}" for name in MODULES]
    done = subprocess.run(
        [*emulate, "--", sys.executable, "-m", "unittest", *names],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ran = re.search(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)
    assert ran is not None, done.stderr
    assert int(ran[1]) >= TESTS
    assert json.loads(ledger.read_text())["violations"] == []
