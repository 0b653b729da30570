"""Compiles memlake's shim for several versions of PyTorch, so that a wheel can carry them for machines without a
compiler. `make torch-shims` runs it.

It downloads each PyTorch (0.2 to 0.9 GB), keeps its headers for the time of the compilation, and writes the shims to
src/memlake/torch/prebuilt/, which is not part of the repository. The next `make` or wheel has them inside.
"""

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from memlake.torch.shim_file import compile_shim, make_stand_ins, prebuilt_name
from memlake.torch.torch_build import TorchBuild

OUTPUT = Path(__file__).parent.parent / "src/memlake/torch/prebuilt"
VERSIONS = ("2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.0", "2.13.0", "2.14.0", "2.15.0")
OLD_STRINGS_UNTIL = 6  # PyTorch's wheels up to this minor version have the old ABI of libstdc++


def headers_of(version: str, folder: Path) -> Path:
    """Downloads a PyTorch and unpacks its headers; returns the folder of the package."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder), f"torch=={version}"]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith("torch/include/")])
    wheel.unlink()
    return folder / "torch"


def build_of(version: str, package: Path) -> TorchBuild:
    """Describes a PyTorch of which only the headers are there."""
    minor = int(version.split(".")[1])
    return TorchBuild(version, minor, package, minor > OLD_STRINGS_UNTIL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=list(VERSIONS), help="versions of PyTorch")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for version in arguments.versions:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            make_stand_ins(folder)
            build = build_of(version, headers_of(version, folder))
            path = arguments.output / prebuilt_name(build)
            for earlier in arguments.output.glob(f"libmemlake_torch-2.{build.minor}-*"):
                earlier.unlink()  # of other sources
            compile_shim(build, path, libraries=folder)
        print(f"{path.name}: {path.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
