"""The real PyTorch without CUDA: its headers and its Python side are there, its CUDA allocator is not."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from memlake.torch.torch_build import TorchBuild


@pytest.fixture(scope="session")
def build() -> TorchBuild:
    """The installed PyTorch as if it had CUDA; its wheels without CUDA contain the same headers."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed; the Makefile installs torch 2.13.0+cpu where it can be had")
    import torch

    minor = int(torch.__version__.split(".")[1])
    folder = Path(str(torch.__file__)).parent
    return TorchBuild(str(torch.__version__), minor, folder, bool(torch._C._GLIBCXX_USE_CXX11_ABI))
