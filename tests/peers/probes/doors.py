"""Probes of the ways in which memlake comes into a program: by its command line, by the environment, for some tensors.

Under PyTorch's own allocators the same programs run without memlake.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from inside import mode
from inside.books import check_inside
from inside.probe import check, probe
from inside.tensors import MIB, taken

PROGRAM = """
import json, os, pathlib, sys
import torch

torch.backends.cudnn.enabled = False
device = int(os.environ.get("LOCAL_RANK", 0))
kept = torch.empty(30 * 2**20, dtype=torch.uint8, device=f"cuda:{device}")
found = [sys.argv[1:], torch.cuda.memory_allocated(device), os.environ.get("WORLD_SIZE")]
found.append(torch.cuda.memory.get_allocator_backend())
pathlib.Path(f"answer{device}").write_text(json.dumps(found))
"""


def answers(*command: str, processes: int = 1, more: dict[str, str] | None = None) -> list[Any]:
    """Runs PROGRAM by a command; returns what its processes say, without the allocator, which must be the mode's."""
    Path("program.py").write_text(PROGRAM)
    with mode.machine():
        done = subprocess.run(
            [sys.executable, *command], env={**os.environ, **(more or {})}, capture_output=True, text=True, check=False
        )
    check(done.returncode == 0, f"the program ended with {done.returncode}: {done.stderr[-500:]}")
    found = [json.loads(Path(f"answer{number}").read_text()) for number in range(processes)]
    backends = {answer.pop() for answer in found}
    check(backends == {mode.backend()}, f"the allocators of the processes are {backends}")
    return found


def enabled() -> dict[str, str]:
    """The variables of a Python that starts with the line of `memlake torch enable`, and with MEMLAKE_TORCH."""
    if not mode.uses_memlake():
        return {}
    from memlake.torch import startup_file

    folder = Path("site").resolve()
    folder.mkdir()
    startup_file.sysconfig.get_path = lambda _: str(folder)  # the lab's own environment stays as it is
    startup_file.enable()
    Path(folder, "sitecustomize.py").write_text(f"import site\nsite.addsitedir({str(folder)!r})\n")
    path = os.pathsep.join([str(folder), os.environ["PYTHONPATH"]])
    return {"PYTHONPATH": path, "MEMLAKE_TORCH": mode.policy()}


@probe(installed=False)
def the_module():
    by_memlake = ["-m", "memlake.torch", "--policy", mode.policy()] if mode.uses_memlake() else []
    return answers(*by_memlake, "program.py", "--steps", "3")


@probe(installed=False)
def the_module_runs_a_module():
    by_memlake = ["-m", "memlake.torch", "--policy", mode.policy()] if mode.uses_memlake() else []
    return answers(*by_memlake, "-m", "program", "--steps", "3")


@probe(installed=False)
def the_variable():
    return answers("program.py", "--steps", "3", more=enabled())


@probe(installed=False, environment={"FAKE_CUDA_DEVICES": "2"})
def torchrun():
    """Each worker inherits the variable."""
    run = ("-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0")
    return answers(*run, "program.py", "--steps", "3", processes=2, more=enabled())


@probe(installed=False)
def a_block():
    """`using`: the tensors of the block live on after it."""
    before = taken(MIB)
    with contextlib.ExitStack() as stack:
        if mode.uses_memlake():
            import memlake.torch

            with mode.machine():
                stack.enter_context(memlake.torch.using(mode.policy(), limit="10GiB"))
        inside = taken(30 * MIB)
        check(torch.cuda.memory.get_allocator_backend() == mode.backend(), "another allocator is used in the block")
        allocated = torch.cuda.memory_allocated()
    check(torch.cuda.memory.get_allocator_backend() == "native", "the block has left its allocator behind")
    size = before.numel() + inside.numel()
    del inside
    return size, allocated, torch.cuda.memory_allocated()


@probe()
def a_region():
    """`mem_pool`: the tensors of the block get the memory of one pool, which gets it back."""
    with contextlib.ExitStack() as stack:
        pool = None
        if mode.uses_memlake():
            import memlake
            import memlake.torch

            pool = memlake.Pool(memlake.devices()[0], limit="1GiB")
            stack.enter_context(memlake.torch.mem_pool(pool))
        else:
            stack.enter_context(torch.cuda.use_mem_pool(torch.cuda.MemPool()))
        inside = taken(64 * MIB)
    outside = taken(64 * MIB)
    check_inside([inside, outside])
    allocated = torch.cuda.memory_allocated()
    if pool is not None:
        check(pool.stats().allocated >= 64 * MIB, f"the pool has given {pool.stats().allocated} bytes")
    del inside
    torch.cuda.empty_cache()
    if pool is not None:
        check(pool.stats().allocated == 0, f"{pool.stats().allocated} bytes did not come back")
        pool.trim()
        check(pool.stats().held == 0, f"the pool holds {pool.stats().held} bytes")
        pool.close()
    return allocated, torch.cuda.memory_allocated(), outside.numel()


@probe()
def a_region_with_a_limit():
    """The limit of the pool bounds the block, and nothing else."""
    with contextlib.ExitStack() as stack:
        if mode.uses_memlake():
            import memlake
            import memlake.torch

            pool = memlake.Pool(memlake.devices()[0], limit="100MiB")
            stack.enter_context(memlake.torch.mem_pool(pool))
            try:
                taken(200 * MIB)
                check(False, "a tensor above the limit of the pool was given")
            except torch.OutOfMemoryError:
                pass
        inside = taken(64 * MIB)
    outside = taken(200 * MIB)
    return inside.numel(), outside.numel()


@probe()
def the_live_pool():
    """`pool`, its recording, and `report`."""
    kept = taken(30 * MIB)
    if mode.uses_memlake():
        import memlake.torch

        pool = memlake.torch.pool()
        with pool.record("steps.txt") as recording:
            other = [taken(5 * MIB) for _ in range(4)]
            del other
        check(pool.stats().allocated == torch.cuda.memory_allocated(), "the pool and PyTorch's statistics differ")
        check(len(recording.trace) >= 8, f"{len(recording.trace)} requests were recorded")
        text = str(memlake.torch.report(recording.trace))
        for words in ("memlake is PyTorch's allocator", "cuda:0", "PyTorch, native", "PyTorch, expandable segments"):
            check(words in text, f"the report does not say {words!r}: {text}")
    return kept.numel(), torch.cuda.memory_allocated()
