"""The allocator that a program inside the lab uses: the mode of the run."""

from __future__ import annotations

import os
import warnings

import torch

MODE = os.environ.get("PEERS_MODE", "native")
"""`native`, `expandable`, `memlake`, or `memlake:POLICY`."""


def uses_memlake() -> bool:
    """Says whether this run is about memlake."""
    return MODE.partition(":")[0] == "memlake"


def policy() -> str:
    """The policy of memlake in this run."""
    return MODE.partition(":")[2] or "lake"


def install(other_policy: str | None = None) -> None:
    """Installs memlake if the run is about memlake."""
    if uses_memlake():
        import memlake.torch

        memlake.torch.install(other_policy or policy())


def uninstall() -> None:
    """Gives PyTorch its own allocator back, if the run is about memlake."""
    if uses_memlake():
        import memlake.torch

        memlake.torch.uninstall()


def prepare() -> None:
    """Switches off what the lab does not have: the real cuDNN does not start on its driver."""
    warnings.filterwarnings("ignore")
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
