"""Categories of allocations: weights, gradients, optimizer state, activations, workspaces, or unknown.

A snapshot does not say what an allocation is for. Each rule here is a fact of the stack that leaves no other
explanation, or few; an allocation that no rule decides is unknown. `RULES` has the words for people.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memlake.trace.call_sites import is_in_torch, is_python

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.trace.stacks import Frame

__all__ = ["RULES", "UNKNOWN", "category_of"]

UNKNOWN = "unknown"

RULES = {
    "weights": "allocated by Module.to() or the constructor of a torch.nn module, with buffers",
    "optimizer state": "allocated by _init_group of a torch.optim optimizer",
    "activations": "allocated in the call of a module, and freed by autograd in backward",
    "gradients": "allocated by autograd in backward; temporaries are among them",
    "workspaces": "allocated by cuBLAS, cuBLASLt or cuDNN for itself",
    UNKNOWN: "no rule decides it",
}

_MODULE = "nn/modules/module.py"
_ENGINE = "torch::autograd::Engine::"
_SAVED = ("torch::autograd::SavedVariable", "::release_variables(")
_WORKSPACE = re.compile(
    r"getNewWorkspace|getNewCUDABlasLtWorkspace|getCUDABlasLtWorkspace|getCurrentCUDABlasHandle|CudaBlasWorkspace"
    r"|cublas\w*[wW]orkspace|cudnn\w*[wW]orkspace"
)


def category_of(stack: Sequence[Frame], free: Sequence[Frame] = ()) -> str:
    """Returns the category of an allocation.

    Args:
        stack: the stack of the allocation, the innermost frame first.
        free: the stack of its free; empty if it is not known or not freed.
    """
    if any(_WORKSPACE.search(frame.name[:2000]) for frame in stack):
        return "workspaces"
    of_torch = [(_within_torch(frame), frame.name) for frame in stack if is_python(frame) and is_in_torch(frame)]
    if any(path.startswith("optim/") and name == "_init_group" for path, name in of_torch):
        return "optimizer state"
    is_call = (_MODULE, "_call_impl") in of_torch
    if any(_makes_parameters(path, name) for path, name in of_torch):
        return UNKNOWN if is_call else "weights"
    if is_call:
        return "activations" if _is_freed_by_backward(free) else UNKNOWN
    return "gradients" if _is_in_backward(stack) else UNKNOWN


def _makes_parameters(path: str, name: str) -> bool:
    """Returns whether a function of torch is one that allocates the parameters and buffers of modules."""
    if path == _MODULE and name in ("_apply", "convert"):
        return True
    return path.startswith("nn/modules/") and name == "__init__"


def _is_in_backward(stack: Sequence[Frame]) -> bool:
    return any(_ENGINE in frame.name for frame in stack)


def _is_freed_by_backward(free: Sequence[Frame]) -> bool:
    """Returns whether autograd frees the memory because backward no longer needs the saved tensor."""
    return _is_in_backward(free) and any(word in frame.name for frame in free for word in _SAVED)


def _within_torch(frame: Frame) -> str:
    """Returns the path of a file inside the package torch, such as ``"nn/modules/module.py"``."""
    return frame.filename[-2000:].replace("\\", "/").rpartition("/torch/")[2]
