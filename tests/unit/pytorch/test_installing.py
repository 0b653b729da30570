"""Installing memlake in PyTorch: its arguments, and the errors in front of a PyTorch that cannot have it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import memlake.torch
from memlake.errors import ConfigError
from memlake.torch.startup import install_from_text

if TYPE_CHECKING:
    from pathlib import Path

    from memlake.torch.torch_build import TorchBuild


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (("lake", None, None), "lake"),
        (("lake", "90%", None), "lake,limit:90%"),
        (("lake", "1GiB", None), f"lake,limit:{2**30}"),
        (("lake,aliasing:none", 5, "host"), "lake,aliasing:none,limit:5,spill:host"),
        ((memlake.policy("expandable"), None, None), "expandable"),
    ],
)
def test_settings_become_one_text(settings: Any, text: str) -> None:
    assert memlake.torch.Installation.of(*settings, None).configuration == text


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        (("lak", None, None), "lak"),
        (("lake", "0", None), "leaves no memory"),
        (("lake", "many", None), "limit"),
        (("lake", "-5%", None), "limit"),
        (("lake", None, "disk"), "spill"),
    ],
)
def test_a_wrong_setting_is_an_error_before_the_first_tensor(settings: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        memlake.torch.Installation.of(*settings, None)


@pytest.mark.parametrize("devices", [[], [-1], [64], ["cuda:0"], [0, "cuda:1"], 0, "0"])
def test_wrong_devices_are_refused(devices: Any) -> None:
    with pytest.raises(ConfigError, match="device"):
        memlake.torch.install(devices=devices)


def test_a_torch_without_cuda_keeps_its_allocator(build: TorchBuild) -> None:
    with pytest.raises(ConfigError, match=r"without CUDA.*install a CUDA build"):
        memlake.torch.install()

    assert memlake.torch.installation() is None
    memlake.torch.uninstall()  # nothing to do


def test_using_leaves_nothing_behind_when_it_fails(build: TorchBuild) -> None:
    with pytest.raises(ConfigError, match="without CUDA"), memlake.torch.using("lake"):
        raise AssertionError("the block must not run")

    assert memlake.torch.installation() is None


def test_a_text_with_pool_keys_is_taken_apart(build: TorchBuild) -> None:
    with pytest.raises(ConfigError, match="without CUDA"):
        install_from_text("lake,limit:90%,spill:host")
    with pytest.raises(ConfigError, match="limit"):
        install_from_text("lake,limit:ninety")


def test_importing_memlake_torch_does_not_import_torch() -> None:
    code = "import sys, memlake.torch; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_torch_it_says_so(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import importlib.util as u; u.find_spec = lambda name: None\n"
        "import memlake.torch\n"
        "try: memlake.torch.install()\n"
        "except memlake.ConfigError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "PyTorch is not installed" in done.stdout
