"""The allocator that a program inside the lab uses: the mode of the run."""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

MODE = os.environ.get("PEERS_MODE", "native")
"""`native`, `expandable`, `memlake` or `pluggable` (memlake without its shim); the last two also with `:POLICY`."""


def uses_memlake() -> bool:
    """Says whether this run is about memlake."""
    return MODE.partition(":")[0] in ("memlake", "pluggable")


def has_snapshots() -> bool:
    """Says whether the allocator of this run can be asked for its segments and blocks."""
    return MODE.partition(":")[0] != "pluggable"


def backend() -> str:
    """The name that PyTorch has for the allocator of this run."""
    return {"memlake": "memlake", "pluggable": "pluggable"}.get(MODE.partition(":")[0], "native")


def policy() -> str:
    """The policy of memlake in this run."""
    return MODE.partition(":")[2] or "lake"


def install(other_policy: str | None = None) -> None:
    """Installs memlake if the run is about memlake."""
    if uses_memlake():
        import memlake.torch

        with machine():
            memlake.torch.install(other_policy or policy())


@contextlib.contextmanager
def machine() -> Iterator[None]:
    """For the second door: a machine without a compiler, and without a shim that was compiled before.

    Processes that are started inside the block are on this machine, too.
    """
    if has_snapshots():
        yield
        return
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as empty:
        os.environ.update(PATH=empty, MEMLAKE_CACHE=empty)
        os.environ.pop("CXX", None)
        try:
            yield
        finally:
            for name in ("PATH", "MEMLAKE_CACHE", "CXX"):
                os.environ.pop(name, None)
                if name in before:
                    os.environ[name] = before[name]


def uninstall() -> None:
    """Gives PyTorch its own allocator back, if the run is about memlake."""
    if uses_memlake():
        import memlake.torch

        memlake.torch.uninstall()


def limit(share: str) -> None:
    """Lets the allocator hold no more than this share of the device: memlake's limit, or PyTorch's fraction."""
    if uses_memlake():
        import memlake.torch

        memlake.torch.pool(0).limit = share
    else:
        torch.cuda.set_per_process_memory_fraction(float(share.rstrip("%")) / 100)


def prepare() -> None:
    """Switches off what the lab does not have: the real cuDNN does not start on its driver."""
    warnings.filterwarnings("ignore")
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
