"""Call sites: the line of a program that is responsible for an allocation, found in its stack.

The rules, the first that finds something decides:

- ``"program"``: the innermost Python frame outside torch, site-packages and Python's own library;
- ``"library"``: the innermost Python frame outside torch and Python's own library, else the innermost Python frame;
- ``"autograd"``: the innermost node of autograd among the C++ frames, for stacks without a Python frame;
- ``"native"``: the innermost C++ function that is not part of an allocator, for other stacks without a Python frame;
- ``"none"``: no stack was recorded.

The call site of a trace without stacks is the tag of the row, if it has one: ``"tag"``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memlake.trace.stacks import Frame

__all__ = ["BEFORE", "KNOWN_RULES", "CallSite", "call_site_of", "is_in_torch", "is_python"]

_NO_SITE = "(no stack recorded)"
BEFORE = "(allocated before the recording)"
KNOWN_RULES = frozenset({"program", "library", "autograd", "tag"})
"""The rules that find a call site: by a Python frame, a node of autograd or a tag."""
_INSTALLED = re.compile(r"/(?:site|dist)-packages/")
_PYTHON_LIBRARY = re.compile(r"/lib(?:64)?/python\d[^/]*/(?!(?:site|dist)-packages/)|^<frozen ")
# A checkout of PyTorch is recognised by the parts of the package; a folder of a user may be called torch as well.
_TORCH = re.compile(
    r"/(?:site|dist)-packages/torch/"
    r"|/torch/(?:_\w+|amp|autograd|compiler|cuda|distributed|distributions|fft|func|fx|jit|library|linalg|nn"
    r"|nested|optim|profiler|sparse|special|utils)(?:/|\.py$)"
    r"|/torch/(?:functional|hub|overrides|random|serialization|storage|__init__)\.py$"
)
# Code that torch.compile generates, and whose lines are not in the program.
_GENERATED = re.compile(r"^<eval_with_key>|/torchinductor_[^/]*/")
_NODE = re.compile(r"(?:^|::)(\w+Backward\d*|AccumulateGrad|CopySlices|CopyBackwards)(?:::|<|\()")
_PLUMBING = re.compile(
    r"unwind|CapturedTraceback|gather_with_cpp|CachingAllocator|empty_generic|empty_cuda|empty_strided_cuda|create_out"
    r"|set_output|^_?_?libc|^_start$|^_?Py|wrap_kernel_functor|^$|^\?\?$"
)
_LONGEST = 100


class CallSite(NamedTuple):
    """The place in a program that is responsible for an allocation.

    Attributes:
        text: the place for people, such as ``"train.py:12 forward"``.
        rule: which rule found it: ``"program"``, ``"library"``, ``"autograd"``, ``"native"``, ``"tag"`` or ``"none"``.
        filename: the file with its folders; empty unless it is a Python frame.
        line: the line in the file; 0 unless it is a Python frame.
        function: the name of the function or of the node of autograd.
    """

    text: str
    rule: str
    filename: str = ""
    line: int = 0
    function: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a dict, under the names that rows of call sites have in JSON."""
        return {
            "site": self.text,
            "rule": self.rule,
            "file": self.filename,
            "line": self.line,
            "function": self.function,
        }


def call_site_of(stack: Iterable[Frame]) -> CallSite:
    """Returns the call site of a stack, whose innermost frame comes first."""
    frames = list(stack)
    if not frames:
        return CallSite(_NO_SITE, "none")
    python = [frame for frame in frames if is_python(frame)]
    if python:
        outside = [frame for frame in python if not _is_in_python_library(frame) and not is_in_torch(frame)]
        for frame in outside:
            if not _INSTALLED.search(_path(frame)):
                return _site(frame, "program")
        return _site((outside or python)[0], "library")
    for frame in frames:
        if match := _NODE.search(frame.name[:2000]):
            return CallSite(f"autograd {match[1]}"[:_LONGEST], "autograd", function=match[1][:_LONGEST])
    for frame in frames:
        name = _without_arguments(frame.name)
        if not _PLUMBING.search(name):
            return CallSite(f"C++ {name}"[:_LONGEST], "native", function=name[:_LONGEST])
    return CallSite("(no Python frame)", "native")


def is_python(frame: Frame) -> bool:
    """Returns whether a frame is of Python code, also of a notebook or of stdin."""
    name = frame.filename
    return name.endswith(".py") or (name.startswith("<") and name.endswith(">")) or "/ipykernel_" in name


def is_in_torch(frame: Frame) -> bool:
    """Returns whether a frame is of PyTorch's own Python code."""
    return _TORCH.search(_path(frame)) is not None or _GENERATED.search(frame.filename) is not None


def _is_in_python_library(frame: Frame) -> bool:
    return _PYTHON_LIBRARY.search(_path(frame)) is not None


def _path(frame: Frame) -> str:
    return frame.filename[-2000:].replace("\\", "/")


def _site(frame: Frame, rule: str) -> CallSite:
    short = _path(frame).rpartition("/")[2]
    text = f"{short[:_LONGEST]}:{frame.line} {frame.name[:_LONGEST]}".strip()
    return CallSite(text, rule, frame.filename[:1000], frame.line, frame.name[:_LONGEST])


def _without_arguments(name: str) -> str:
    """Returns the name of a C++ function without its arguments and template arguments."""
    short = name[:2000].replace("(anonymous namespace)::", "")
    return re.split(r"[(<]", short, maxsplit=1)[0].strip()
