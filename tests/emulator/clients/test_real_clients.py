"""Other people's programs on the emulator: NVIDIA's own Python bindings of the driver, unchanged."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAMS = Path(__file__).parent / "programs"


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def run_on_emulator(
    program: str, ledger: Path, *options: str, arguments: Sequence[str] = ()
) -> tuple[str, dict[str, Any]]:
    """Runs a program under ``memlake emulate``; returns what it printed and the ledger at its end."""
    command = [sys.executable, "-m", "memlake", "emulate", "--ledger", str(ledger), *options]
    done = subprocess.run(
        [*command, "--", sys.executable, str(PROGRAMS / program), *arguments],
        capture_output=True,
        text=True,
        check=False,
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


@pytest.mark.skipif(not is_installed("cuda.core"), reason="cuda-core cannot be installed here")
@pytest.mark.parametrize("profile", ["strict", "nvidia"])
def test_cuda_core_managed_memory_is_written_prefetched_advised_and_freed(profile: str, tmp_path: Path) -> None:
    printed, ledger = run_on_emulator(
        "cuda_core_managed.py", tmp_path / "ledger.json", "--memory=256MiB", f"--profile={profile}"
    )
    assert printed.splitlines() == ["the current managed pool", "a pool that prefers a device", "cuMemAllocManaged"]
    assert_nothing_left(ledger, "pool_allocations", "managed_allocations")
    assert ledger["devices"][0]["managed"] == 0


@pytest.mark.skipif(not is_installed("cuda.core"), reason="cuda-core cannot be installed here")
@pytest.mark.parametrize("profile", ["strict", "nvidia"])
def test_cuda_core_graphs_are_captured_launched_updated_and_destroyed(profile: str, tmp_path: Path) -> None:
    printed, ledger = run_on_emulator(
        "cuda_core_graphs.py", tmp_path / "ledger.json", "--memory=256MiB", f"--profile={profile}"
    )
    assert printed.splitlines() == ["a captured graph", "memory of a graph", "a graph of cuda-bindings"]
    assert_nothing_left(ledger, "graphs", "graph_execs", "pool_allocations")
    assert [entry for entry in ledger["graph_memory"] if entry["held"]] == []
    assert ledger["calls"]["cuGraphLaunch"] == 5


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


@pytest.mark.skipif(not is_installed("cuda.core"), reason="cuda-core cannot be installed here")
def test_cuda_core_allocates_from_a_pool_of_memlake(tmp_path: Path) -> None:
    printed, ledger = run_on_emulator("cuda_core_resource.py", tmp_path / "ledger.json", "--memory=256MiB")
    assert [line.split(":")[0] for line in printed.splitlines()] == [
        "filled and copied",
        "reused on its stream",
        "a second free",
    ]
    assert_nothing_left(ledger, "allocations", "pool_allocations")


@pytest.mark.skipif(not is_installed("numba_cuda"), reason="numba-cuda is not installed (pip install numba-cuda)")
def test_arrays_of_numba_are_memory_of_a_pool(tmp_path: Path) -> None:
    printed, ledger = run_on_emulator("numba_arrays.py", tmp_path / "ledger.json", "--memory=256MiB")
    assert printed.splitlines() == [
        "copied both ways",
        "reused",
        "out of memory: OutOfMemory",
        "no handle: memory of a memlake pool has no CUDA IPC handle",
        "too late: Numba has a context already",
        "freed",
    ]
    assert_nothing_left(ledger, "allocations", "chunks", "mappings")


@pytest.mark.skipif(not is_installed("tinygrad"), reason="tinygrad is not installed (pip install tinygrad)")
def test_tinygrad_allocates_copies_and_reuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEV", "CUDA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # where it keeps what it has compiled
    printed, ledger = run_on_emulator("tinygrad_tensors.py", tmp_path / "ledger.json", "--devices=2", "--memory=64MiB")
    assert printed.splitlines() == ["copied both ways", "copied to another device", "reused", "freed"]
    assert_nothing_left(ledger, "allocations", "host_allocations")
    assert ledger["calls"]["cuMemAlloc"] == 2


@pytest.mark.skipif(not is_installed("pynvml"), reason="nvidia-ml-py cannot be installed here")
def test_nvidia_ml_py_sees_the_memory_that_the_process_holds(tmp_path: Path) -> None:
    printed, ledger = run_on_emulator("nvidia_ml_py.py", tmp_path / "ledger.json", "--devices=2", "--memory=64MiB")
    assert printed.splitlines() == [
        "2 devices, memlake emulated GPU, compute capability 8.0",
        "device 0: 0 of 67108864 bytes used by no process",
        "device 1: 16777216 of 67108864 bytes used by this process",
        "power: Not Supported",
    ]
    assert_nothing_left(ledger, "allocations")


@pytest.mark.skipif(
    not (is_installed("cuda.bindings.nvrtc") and is_installed("nvidia.cu13")),
    reason="nvidia-cuda-nvrtc (40 MB) is not installed; `make clients` does not install it",
)
def test_nvrtc_compiles_a_kernel(tmp_path: Path) -> None:
    printed, _ = run_on_emulator("nvrtc.py", tmp_path / "ledger.json", "--memory=64MiB")
    assert printed == "compiled\n"


NVRTC = ("nvidia.cu13", "nvidia.cuda_nvrtc")
"""The folders in which the packages of NVRTC lie."""


def assert_kernel_was_skipped(ledger: dict[str, Any], launches: int) -> None:
    assert sum(ledger["skipped_kernels"].values()) == launches
    (warning,) = ledger["warnings"]
    assert "is skipped (kernels=skip)" in warning["text"]
    assert_nothing_left(ledger, "allocations", "pool_allocations")  # cuda.core never unloads a library


@pytest.mark.skipif(not is_installed("cuda.core"), reason="cuda-core cannot be installed here")
def test_cuda_core_launches_kernels_that_are_skipped(tmp_path: Path) -> None:
    printed, ledger = run_on_emulator(
        "cuda_core_kernels.py", tmp_path / "ledger.json", "--memory=256MiB", "--kernels=skip"
    )
    assert printed.splitlines() == ["[(0, 8), (8, 8), (16, 4)]", "3 launches, 2 addresses"]
    assert_kernel_was_skipped(ledger, 3)


@pytest.mark.skipif(
    not is_installed("cuda.core") or not any(map(is_installed, NVRTC)),
    reason="cuda-core or NVRTC is not installed (pip install cuda-core nvidia-cuda-nvrtc)",
)
def test_cuda_core_launches_kernels_that_nvrtc_compiled(tmp_path: Path) -> None:
    options = ("--memory=256MiB", "--kernels=skip")
    printed, ledger = run_on_emulator("cuda_core_kernels.py", tmp_path / "ledger.json", *options, arguments=["nvrtc"])
    assert printed.splitlines() == ["[(0, 8), (8, 8), (16, 4)]", "3 launches, 2 addresses"]
    assert_kernel_was_skipped(ledger, 3)


@pytest.mark.skipif(
    not is_installed("numba_cuda") or not any(map(is_installed, NVRTC)),
    reason="numba-cuda or its compilers are not installed (pip install 'numba-cuda[cu13]')",
)
def test_numba_compiles_and_launches_a_kernel_that_is_skipped(tmp_path: Path) -> None:
    printed, ledger = run_on_emulator("numba_kernel.py", tmp_path / "ledger.json", "--memory=256MiB", "--kernels=skip")
    assert printed.splitlines() == ["skipped", "freed"]
    assert sum(ledger["skipped_kernels"].values()) == 1
    assert_nothing_left(ledger, "allocations")
