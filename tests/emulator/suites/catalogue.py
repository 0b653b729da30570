"""The suites that run under the emulator: where their tests come from, which files run, and with which settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SETTINGS = ("--devices", "2", "--memory", "8GiB", "--kernels", "skip", "--explain")
"""The emulated devices of every suite; the profile is strict. Kernels are loaded and launched, and compute nothing. The
emulator says why it refuses a call, which the signs of reasons look for."""


@dataclass(frozen=True)
class Suite:
    """One package's tests."""

    name: str
    """The name of its folder in the folder of checkouts, and of its table of expected results."""
    repository: str
    """The public repository of the tests."""
    tag: str
    """The tag of the tests, which is that of the installed package."""
    folder: str
    """The folder of the checkout in which pytest runs."""
    environment: str
    """The name of the file in `requirements/` that lists the packages."""
    files: tuple[str, ...]
    """What pytest is given, one process for each."""
    options: tuple[str, ...] = ()
    """What pytest is given before the file."""

    @property
    def table(self) -> Path:
        """The file of expected results."""
        return HERE / "expected" / f"{self.name}.json"


def _below(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/test_{name}.py" for name in names)


def _modules(package: str, *names: str) -> tuple[str, ...]:
    return tuple(f"numba.cuda.tests.{package}.test_{name}" for name in names)


# Left out: the files that never call the driver (documentation, caches of compiled programs, typing, build hooks) and
# those that need a compiler (cython, examples).
CUDA_CORE = (
    *_below("tests", "checkpoint", "context", "cuda_utils", "device", "enum_coverage", "event", "graphics"),
    *_below("tests", "green_context", "helpers", "host", "launcher", "linker", "managed_memory_warning", "memory"),
    *_below("tests", "memory_peer_access", "memory_peer_access_utils", "module", "multiprocessing_warning"),
    *_below("tests", "program", "stream", "strided_layout", "tensor_map", "texture_surface", "utils", "utils_dlpack"),
    *_below("tests/memory", "managed_ops"),
    *_below("tests/memory_ipc", "errors", "event_ipc", "ipc_duplicate_import", "leaks", "memory_ipc", "peer_access"),
    *_below("tests/memory_ipc", "send_buffers", "serialize", "workerpool"),
    *_below("tests/graph", "device_launch", "graph_builder", "graph_builder_conditional", "graph_definition"),
    *_below("tests/graph", "graph_definition_errors", "graph_definition_integration", "graph_definition_lifetime"),
    *_below("tests/graph", "graph_definition_mutation", "graph_memory_resource", "graph_update", "options"),
    *_below("tests/system", "nvml_context", "system_device", "system_events", "system_system"),
    *_below("tests", "object_protocols"),
)

CUDA_BINDINGS = (
    *_below("tests", "basics", "cuda", "interoperability", "kernelParams", "nvfatbin", "nvjitlink", "nvrtc", "nvvm"),
    *_below("tests", "utils", "version_check"),
    *_below(
        "tests/nvml", "compute_mode", "cuda", "device", "gpu", "init", "nvlink", "page_retirement", "pci", "pynvml"
    ),
)

NUMBA_CUDA = (
    *_modules("cudadrv", "array_attr", "context_stack", "cuda_array_slicing", "cuda_auto_context"),
    *_modules("cudadrv", "cuda_devicerecord", "cuda_driver", "cuda_memory", "cuda_ndarray", "deallocations", "detect"),
    *_modules("cudadrv", "emm_plugins", "events", "host_alloc", "init", "inline_ptx", "is_fp16", "linkable_code"),
    *_modules("cudadrv", "linker", "managed_alloc", "module_callbacks", "nvjitlink", "nvrtc", "nvvm_driver", "pinned"),
    *_modules("cudadrv", "profiler", "reset_device", "runtime", "select_device", "streams"),
    *_modules("cudapy", "array", "array_args", "array_methods", "array_alignment", "cuda_array_interface"),
    *_modules("cudapy", "device_array_capture", "ipc", "multigpu", "multiprocessing", "multithreads", "stream_api"),
    *_modules("cudapy", "record_dtype", "slicing", "retrieve_autoconverted_arrays"),
)

SUITES = (
    Suite("cuda-core", "NVIDIA/cuda-python", "cuda-core-v1.1.1", "cuda_core", "cuda-python", CUDA_CORE),
    Suite("cuda-bindings", "NVIDIA/cuda-python", "v13.3.1", "cuda_bindings", "cuda-python", CUDA_BINDINGS),
    # The tests are those that the package ships. The checkout has their settings of pytest.
    Suite(
        "numba-cuda",
        "NVIDIA/numba-cuda",
        "v0.30.4",
        "testing",
        "numba-cuda",
        NUMBA_CUDA,
        ("-o", "addopts=", "--benchmark-disable", "--pyargs"),
    ),
    # Left out: test_gpuarray.py and test_cumath.py, which compute with kernels.
    Suite("pycuda", "inducer/pycuda", "v2026.1", "test", "pycuda", ("test_driver.py",)),
)


def how_to_get() -> str:
    """The sentences that tell a developer what to check out, and where."""
    rows = "\n".join(f"  {suite.repository:<20} tag {suite.tag:<18} as DIR/{suite.name}" for suite in SUITES)
    return f"check out the public repositories in a folder DIR, then run make suites SUITES=DIR:\n{rows}"
