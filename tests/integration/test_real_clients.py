"""Other people's programs on the emulator: NVIDIA's own Python bindings of the driver, unchanged."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def run_on_emulator(program: str, ledger: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """Runs a program under ``memlake emulate``; returns what it printed and the ledger at its end."""
    command = [sys.executable, "-m", "memlake", "emulate", "--ledger", str(ledger), *options]
    done = subprocess.run(
        [*command, "--", sys.executable, str(PROGRAMS / program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout, json.loads(ledger.read_text())


def assert_nothing_left(ledger: dict[str, Any], *kinds: str) -> None:
    for what in ("violations", *kinds):
        assert ledger[what] == [], f"{what} left: {ledger[what]}"


@pytest.mark.skipif(not is_installed("cuda.bindings"), reason="cuda-bindings cannot be installed here")
def test_cuda_bindings_stitch_two_devices_copy_and_free(tmp_path: Path) -> None:
    printed, ledger = run_on_emulator("cuda_bindings.py", tmp_path / "ledger.json", "--devices=2", "--memory=64MiB")
    assert printed.splitlines() == [
        "2 devices, memlake emulated GPU, 67108864 bytes",
        "everything was given back",
    ]
    assert_nothing_left(ledger, "mappings", "chunks", "reservations", "allocations")
    assert ledger["calls"]["cuMemMap"] == 3
    assert ledger["calls"]["cuMemSetAccess"] == 1


@pytest.mark.skipif(not is_installed("cuda.core"), reason="cuda-core cannot be installed here")
def test_cuda_core_virtual_memory_resource_allocates_copies_and_frees(tmp_path: Path) -> None:
    printed, ledger = run_on_emulator("cuda_core.py", tmp_path / "ledger.json", "--memory=256MiB")
    assert printed.splitlines()[-1] == "copied and freed"
    # Not "chunks": cuda.core 1.2 never releases the handles it creates here (NVIDIA/cuda-python issue 2882). The ledger
    # shows it; it is theirs to mend.
    assert_nothing_left(ledger, "mappings", "reservations", "allocations")
    assert ledger["calls"]["cuMemCreate"] == 2


@pytest.mark.skipif(not is_installed("cuda.core"), reason="cuda-core cannot be installed here")
def test_cuda_core_memory_pools_allocate_copy_share_and_free(tmp_path: Path) -> None:
    printed, ledger = run_on_emulator("cuda_core_pools.py", tmp_path / "ledger.json", "--memory=256MiB")
    assert printed.splitlines() == [
        "the default pool",
        "a pool with a maximum",
        "a pool of host memory",
        "two processes",
    ]
    assert_nothing_left(ledger, "pool_allocations", "allocations")
    assert [pool for pool in ledger["pools"] if not pool["is_default"]] == []
    assert ledger["calls"]["cuMemAllocFromPoolAsync"] == 6


@pytest.mark.skipif(not is_installed("cuda.bindings"), reason="cuda-bindings cannot be installed here")
def test_the_emulators_own_file_serves_as_libcuda(tmp_path: Path) -> None:
    """A symbolic link named libcuda.so.1 to the emulator is enough; the shim is a convenience."""
    from memlake import emulator_library

    (tmp_path / "libcuda.so.1").symlink_to(emulator_library())
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "cuda_bindings.py")],
        env={"LD_LIBRARY_PATH": str(tmp_path), "MEMLAKE_EMULATOR": "devices=3,memory=64MiB"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.startswith("3 devices")
