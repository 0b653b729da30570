"""The examination of this machine: the checks of ``memlake doctor``, each with its finding."""

from __future__ import annotations

import os
import platform
import resource
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from memlake.errors import MemlakeError
from memlake.hardware.health import BROKEN, EMULATOR, GOOD, NOTE, Finding, Health
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memlake.device.features import Feature

__all__ = ["examine"]

# Names of distributions: looking a version up imports nothing, and importing a framework can take a minute.
_FRAMEWORKS = {
    "torch": ("torch",),
    "cupy": ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"),
    "numba": ("numba",),
    "numba-cuda": ("numba-cuda",),
    "rmm": ("rmm", "rmm-cu12", "rmm-cu13"),
    "cuda.core": ("cuda-core",),
    "cuda.bindings": ("cuda-bindings",),
}
_EXTRAS = {
    "rich": ("rich", "tables in colour on a terminal", "rich"),
    "pyarrow": ("pyarrow", "Trace.save to Parquet", "parquet"),
}

# They change what devices can do, so an error may be theirs.
_VARIABLES = ("MEMLAKE_FEATURES", "MEMLAKE_EMULATOR", "MEMLAKE_HARDWARE")

# Each emulated mapping with real bytes is one mapping of the kernel; Linux allows 65530 by default.
_FEW_MAPPINGS = 65530
# Each chunk that is shared between processes is one open file.
_FEW_FILES = 1024


def examine() -> Health:
    """Runs all checks, among them an allocation on the emulator. It imports no framework."""
    return Health((*_memlake(), *_driver(), *_frameworks(), *_extras(), *_system()))


def _memlake() -> Iterator[Finding]:
    from memlake.libraries import emulator_library, native_library

    yield Finding("memlake", "version", GOOD, version("memlake"))
    yield Finding("memlake", "python", GOOD, f"{platform.python_implementation()} {platform.python_version()}")
    yield Finding("memlake", "machine", GOOD, f"{platform.system()} {platform.release()} on {platform.machine()}")
    reinstall = "Install memlake again: pip install --force-reinstall memlake."
    for name, library in (("native core", native_library), ("emulator", emulator_library)):
        yield _tried("memlake", name, library, reinstall)
    yield _tried("memlake", "emulator at work", _try_the_emulator, reinstall)
    if os.environ.get("MEMLAKE_HARDWARE"):
        yield _tried("memlake", "emulated machine", _machine_of_environment, reinstall)


def _tried(topic: str, name: str, attempt: Callable[[], str], advice: str) -> Finding:
    try:
        return Finding(topic, name, GOOD, attempt())
    except (MemlakeError, ImportError, OSError) as error:
        return Finding(topic, name, BROKEN, str(error), _about_variables(str(error)) or advice)


def _about_variables(error: str) -> str:
    """Returns the advice to change the environment variables that explain the error; empty if there are none."""
    given = [variable for variable in _VARIABLES if os.environ.get(variable)]
    named = [variable for variable in given if variable in error]
    if named:
        return f"Correct or unset {' and '.join(named)}."
    return f"Does it work without {' and '.join(given)}? The environment sets it." if given else ""


def _try_the_emulator() -> str:
    """Stitches two chunks of two emulated devices, fills the range and reads a byte back."""
    from memlake import vmm
    from memlake.emulator.emulated_device import emulate

    with emulate(devices=2, memory="64MiB", hardware="usual") as gpus:
        chunks = [vmm.create(gpu, gpu.granularity) for gpu in gpus]
        with vmm.stitch(chunks, access=gpus) as lake:
            lake.fill(0x5A)
            last = bytearray(1)
            lake.copy_to(last, offset=lake.nbytes - 1)
        for chunk in chunks:
            chunk.close()
    if last != b"\x5a":
        raise MemlakeError("a byte written through a stitched range did not come back")
    return "stitched a range over two emulated GPUs, wrote and read it"


def _machine_of_environment() -> str:
    """Returns the settings of the machine that ``MEMLAKE_HARDWARE`` names."""
    from memlake.emulator.hardware import settings_of

    settings = ", ".join(f"{name}={value!r}" for name, value in settings_of(None).items())
    return f"{os.environ['MEMLAKE_HARDWARE']}: {settings or 'no settings of its own'}"


def _driver() -> Iterator[Finding]:
    from memlake import _native
    from memlake.device import devices

    name = os.environ.get("MEMLAKE_DRIVER", "") or "libcuda.so.1"
    try:
        driver = _native.Driver.load(name)
    except MemlakeError as error:
        advice = "" if name == "libcuda.so.1" else "MEMLAKE_DRIVER names it; unset it, or name a driver."
        hint = advice or "For a real GPU install NVIDIA's driver; everything else works without it."
        yield Finding("driver", name, NOTE, "not found" if name == "libcuda.so.1" else str(error), hint)
        return
    try:
        found = devices()
        number = driver.version()
        kind = f", {EMULATOR}" if driver.is_emulated else ""
        yield Finding("driver", name, GOOD, f"CUDA {number // 1000}.{number % 1000 // 10}{kind}")
    except MemlakeError as error:
        yield Finding("driver", name, NOTE, str(error), "Look at nvidia-smi: the driver is there but does not start.")
        return
    if not found:
        yield Finding("driver", "devices", NOTE, "none", "Is a GPU visible here? See nvidia-smi, CUDA_VISIBLE_DEVICES.")
    for device in found:
        name = f"emulated device {device.ordinal}" if device.is_emulated else f"device {device.ordinal}"
        memory = format_bytes(device.total_memory)
        try:
            features = dict(device.features)
        except MemlakeError as error:
            advice = _about_variables(str(error))
            yield Finding("driver", name, BROKEN, f"{device.name}, {memory}: {error}", advice)
            continue
        if features["virtual_memory"].has:
            memory += f", granule {format_bytes(device.granularity)}"
        yield Finding("driver", name, GOOD, f"{device.name}, {memory}")
        yield from _features(f"device {device.ordinal}", features)


def _features(topic: str, features: dict[str, Feature]) -> Iterator[Finding]:
    for name, feature in features.items():
        if feature.has:
            yield Finding(topic, name, GOOD, f"yes, by {feature.source}")
        else:
            answer = "no" if feature.has is False else "not known"
            value = f"{answer}, by {feature.source}: {feature.reason}"
            yield Finding(topic, name, NOTE, value, _without(name, features))


def _without(name: str, features: dict[str, Feature]) -> str:
    """Returns what memlake does without a feature on a device with these features."""
    if not features["virtual_memory"].has:
        # The other features are about memory that such a device does not have.
        others = ", ".join(feature for feature in features if feature != "virtual_memory")
        return f"Without it {features[name].without}, without {others}." if name == "virtual_memory" else ""
    if name == "fabric_handles" and not features["file_descriptors"].has:
        return 'Without it and file_descriptors handle_type="fabric" becomes None, and export() is refused.'
    return f"Without it {features[name].without}."


def _installed(distributions: tuple[str, ...]) -> str | None:
    for distribution in distributions:
        try:
            return f"{version(distribution)} ({distribution})" if len(distributions) > 1 else version(distribution)
        except PackageNotFoundError:
            continue
    return None


def _frameworks() -> Iterator[Finding]:
    for name, distributions in _FRAMEWORKS.items():
        found = _installed(distributions)
        yield Finding("frameworks", name, GOOD if found else NOTE, found or "not installed")


def _extras() -> Iterator[Finding]:
    for name, (distribution, purpose, extra) in _EXTRAS.items():
        found = _installed((distribution,))
        if found:
            yield Finding("extras", name, GOOD, found)
        else:
            advice = f'For {purpose}: pip install "memlake[{extra}]".'
            yield Finding("extras", name, NOTE, "not installed", advice)


def _system() -> Iterator[Finding]:
    yield from _kernel_mappings()
    files, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    advice = f"Raise it for many shared chunks: ulimit -n {most_files}." if _is_less(files, _FEW_FILES + 1) else ""
    yield Finding("system", "open files", NOTE if advice else GOOD, _limit(files), advice)
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    yield Finding("system", "locked memory", GOOD, "unlimited" if _is_unlimited(locked) else format_bytes(locked))
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    if not _is_unlimited(addresses):
        advice = "The emulator reserves addresses by the TiB: ulimit -v unlimited."
        yield Finding("system", "address space", NOTE, format_bytes(addresses), advice)
    yield from _memory()


def _kernel_mappings() -> Iterator[Finding]:
    try:
        mappings = int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return
    advice = ""
    if mappings < _FEW_MAPPINGS:
        advice = f"Raise it: sysctl vm.max_map_count={_FEW_MAPPINGS}."
    yield Finding("system", "vm.max_map_count", NOTE if advice else GOOD, str(mappings), advice)


def _memory() -> Iterator[Finding]:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines) if rest.split()}
        available, total = kib["MemAvailable"] * 1024, kib["MemTotal"] * 1024
        yield Finding("system", "memory", GOOD, f"{format_bytes(available)} of {format_bytes(total)} available")
    except (OSError, ValueError, KeyError):
        pass
    try:
        shared = os.statvfs("/dev/shm")
        free = f"{format_bytes(shared.f_bavail * shared.f_frsize)} free"
        yield Finding("system", "/dev/shm", GOOD, free)
    except OSError:
        yield Finding("system", "/dev/shm", NOTE, "missing", "Some programs share memory through it; memlake does not.")
    try:
        overcommit = Path("/proc/sys/vm/overcommit_memory").read_text().strip()
    except OSError:
        return
    advice = "Emulated memory counts as used before it is touched: sysctl vm.overcommit_memory=0." * (overcommit == "2")
    yield Finding("system", "vm.overcommit_memory", NOTE if advice else GOOD, overcommit, advice)


def _is_unlimited(limit: int) -> bool:
    return limit == resource.RLIM_INFINITY


def _is_less(limit: int, than: int) -> bool:
    return not _is_unlimited(limit) and limit < than


def _limit(limit: int) -> str:
    return "unlimited" if _is_unlimited(limit) else str(limit)
