"""Probes of installations that cannot be: one sentence that names the fix, and PyTorch goes on with what it had.

Under PyTorch's own allocators the same programs run without an installation.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import torch
from inside import mode
from inside.probe import check, probe
from inside.tensors import GIB, MIB, taken
from probes.process import in_a_fork

ANOTHER_POOL = {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync", "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}


def require_refusal(*words: str, **settings: Any) -> None:
    """Tries to install memlake, which must raise ConfigError with these words in one sentence or two."""
    if not mode.uses_memlake():
        return
    import memlake.torch

    before = memlake.torch.installation()
    try:
        memlake.torch.install(**settings)
    except memlake.ConfigError as error:
        text = str(error)
        check(all(word in text for word in words), f"the error does not name {words}: {text}")
        check("\n" not in text, f"the error has several lines: {text}")
    else:
        check(False, f"the installation was accepted, although {words}")
    check(memlake.torch.installation() == before, "a refused installation has changed the present one")


def goes_on() -> tuple[bool, int]:
    """PyTorch gives memory and takes it back."""
    return taken(30 * MIB).data_ptr() != 0, torch.cuda.memory_allocated()


@probe(fresh=True, installed=False)
def an_old_version():
    version = torch.__version__
    torch.__version__ = "2.5.1"
    require_refusal("2.6", "2.5.1")
    torch.__version__ = version
    return goes_on()


@probe(fresh=True, installed=False)
def another_major_version():
    version = torch.__version__
    torch.__version__ = "3.0.0"
    require_refusal("2.x", "3.0.0")
    torch.__version__ = version
    return goes_on()


@probe(fresh=True, installed=False)
def a_build_without_cuda():
    version = torch.version.cuda
    torch.version.cuda = None
    require_refusal("without CUDA", "install a CUDA build")
    torch.version.cuda = version
    return goes_on()


@probe(fresh=True, installed=False)
def a_build_for_other_devices():
    versions = torch.version.cuda, torch.version.hip
    torch.version.cuda, torch.version.hip = None, "6.4"
    require_refusal("ROCm", "install a CUDA build")
    torch.version.cuda, torch.version.hip = versions
    return goes_on()


@probe(fresh=True, installed=False)
def a_shim_of_another_minor_version():
    if mode.uses_memlake():
        import dataclasses

        import memlake
        from memlake.torch.shim import Shim
        from memlake.torch.shim_file import find_shim
        from memlake.torch.torch_build import installed_build

        build = installed_build()
        try:
            Shim(find_shim(build), dataclasses.replace(build, minor=build.minor + 1))
            check(False, "the shim of another version was accepted")
        except memlake.ConfigError as error:
            check("delete the file" in str(error), str(error))
    return goes_on()


@probe(fresh=True, installed=False, books=False)
def another_allocator_is_installed():
    """As RMM does it."""
    library = Path(os.environ["PEERLAB"], "build", "libplug.so")
    other = torch.cuda.memory.CUDAPluggableAllocator(str(library), "plug_malloc", "plug_free")
    torch.cuda.memory.change_current_allocator(other)
    require_refusal("pluggable", "change_current_allocator")
    return taken(30 * MIB).data_ptr() != 0, torch.cuda.memory.get_allocator_backend()


@probe()
def twice_with_other_settings():
    require_refusal("uninstall()", "using(", policy="expandable")
    require_refusal("uninstall()", "using(", policy=mode.policy(), limit="10GiB")
    return goes_on()


@probe(fresh=True, installed=False, environment=ANOTHER_POOL, books=False)
def the_driver_pool_is_in_use():
    require_refusal("backend:cudaMallocAsync", "PYTORCH_ALLOC_CONF")
    return taken(30 * MIB).data_ptr() != 0, torch.cuda.memory.get_allocator_backend()


@probe(installed=False)
def in_a_forked_worker():
    kept = taken(30 * MIB)

    def work() -> str:
        require_refusal("forked", "spawn")
        return "refused"

    return in_a_fork(work), goes_on(), kept.numel()


@probe(installed=False)
def a_limit_above_the_device():
    kept = taken(30 * MIB)
    require_refusal("limit", "90%", limit="200GiB")
    return goes_on(), kept.numel()


@probe(fresh=True, installed=False)
def a_limit_above_the_device_before_cuda_has_started():
    if mode.uses_memlake():
        import memlake.torch

        memlake.torch.install(mode.policy(), limit="200GiB")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = goes_on(), taken(70 * GIB).numel()
    texts = [str(warning.message) for warning in said if "memlake" in str(warning.message)]
    check(len(texts) == mode.uses_memlake(), f"the warnings are {texts}")
    check(all("above the 80.00 GiB of device 0" in text and "90%" in text for text in texts), f"the warning is {texts}")
    return found


@probe(installed=False)
def wrong_arguments():
    kept = taken(30 * MIB)
    require_refusal("lak", policy="lak")
    require_refusal("limit", limit="0")
    require_refusal("limit", limit="many")
    require_refusal("spill", spill="disk")
    require_refusal("device", devices=[])
    require_refusal("device", devices=[64])
    require_refusal("no device 7", devices=[7])
    return goes_on(), kept.numel()
