"""The file of the shim: prebuilt, or in the user's cache, or compiled against the installed PyTorch.

The shim is C++ that subclasses PyTorch's own allocator, so it belongs to one minor version of PyTorch. Compiling it
takes some seconds and needs only a C++ compiler: PyTorch brings its headers, and ``shim/stub`` has the few names of
CUDA.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from memlake.errors import ConfigError
from memlake.libraries import include_directory, native_library

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlake.torch.torch_build import TorchBuild

__all__ = [
    *("MissingCompiler", "cache_folder", "compile_shim", "find_shim", "make_stand_ins", "prebuilt_name", "sources"),
]

_LOG = logging.getLogger("memlake.torch")
_SOURCES = Path(__file__).parent / "shim"
_PREBUILT = Path(__file__).parent / "prebuilt"
_COMPILERS = ("g++", "c++", "clang++")


class MissingCompiler(ConfigError):  # noqa: N818
    """There is neither a prebuilt shim for this PyTorch nor a C++ compiler to make one."""


def find_shim(build: TorchBuild) -> Path:
    """Returns the shim for this PyTorch; compiles it if it is not there. Safe when many processes start at once.

    Raises:
        MissingCompiler: if it must be compiled and there is no compiler.
        ConfigError: if it cannot be compiled.
    """
    prebuilt = _PREBUILT / prebuilt_name(build)
    if prebuilt.exists():
        return prebuilt
    folder = cache_folder()
    path = folder / f"libmemlake_torch-2.{build.minor}-{_fingerprint(build)}.so"
    if path.exists():
        return path
    with _locked(folder / (path.name + ".lock")):
        if not path.exists():
            _LOG.info("compiling memlake's shim for PyTorch %s", build.version)
            compile_shim(build, path)
    return path


def prebuilt_name(build: TorchBuild) -> str:
    """Returns the name of a prebuilt shim for this PyTorch: minor version, ABI and our sources."""
    parts = (
        f"2.{build.minor}",
        f"abi{int(build.has_new_strings)}",
        platform.machine(),
        _digest_of_sources().hexdigest(),
    )
    return f"libmemlake_torch-{'-'.join(part[:16] for part in parts)}.so"


def compile_shim(build: TorchBuild, path: Path, *, libraries: Path | None = None) -> None:
    """Compiles the shim to a file, which appears complete or not at all.

    Args:
        build: the PyTorch whose headers are used.
        path: the file to make.
        libraries: the folder of ``libc10.so`` and ``libc10_cuda.so``. None: that of the build.

    Raises:
        MissingCompiler: if there is no compiler.
        ConfigError: if the compiler refuses the sources, with its first error.
    """
    made = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    command = [*_compiler(), *_flags(build), str(_SOURCES / "shim.cpp"), "-o", str(made)]
    command += _link_flags(libraries or build.folder / "lib")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ConfigError(_why(build, command, done.stderr))
        made.replace(path)
    except OSError as error:
        raise ConfigError(f"memlake's shim for PyTorch {build.version} cannot be made at {path}: {error}") from error
    finally:
        made.unlink(missing_ok=True)


def sources() -> list[Path]:
    """Returns the files of the shim, by name."""
    return sorted(path for path in _SOURCES.rglob("*") if path.suffix in (".hpp", ".cpp", ".h"))


def cache_folder() -> Path:
    """Returns the folder of compiled shims, which only this user can write: in ``$MEMLAKE_CACHE``, or the user's cache.

    Raises:
        ConfigError: if there is no such folder and it cannot be made.
    """
    given = os.environ.get("MEMLAKE_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    places = [Path(given)] if given else [home / "memlake", Path(tempfile.gettempdir()) / f"memlake-{os.getuid()}"]
    refusals = []
    for place in places:
        folder = place / "torch"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _require_private(folder)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError as error:
            refusals.append(f"{folder} ({error.strerror or error})")
    raise ConfigError(
        "memlake has no folder for its compiled shim: "
        + " and ".join(refusals)
        + "; set MEMLAKE_CACHE to a folder that you can write"
    )


def _require_private(folder: Path) -> None:
    """A library that another user can exchange must not be loaded."""
    status = folder.stat()
    if status.st_uid != os.getuid():
        raise PermissionError(0, "it belongs to another user")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        folder.chmod(0o700)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compiler() -> list[str]:
    given = os.environ.get("CXX")
    if given:
        return shlex.split(given)
    for name in _COMPILERS:
        if shutil.which(name):
            return [name]
    raise MissingCompiler(
        "memlake compiles a small shim against the installed PyTorch, and there is no C++ compiler here: "
        "install g++ 10 or newer, or set CXX"
    )


def _flags(build: TorchBuild) -> list[str]:
    headers = build.folder / "include"
    flags = [
        *("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-w"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(build.has_new_strings)}",
        f"-I{_SOURCES}",
        f"-I{include_directory()}",
        *(f"-isystem{folder}" for folder in (_SOURCES / "stub", headers, headers / "torch/csrc/api/include")),
    ]
    if not (headers / "c10/cuda/impl/cuda_cmake_macros.h").exists():  # a build of PyTorch without CUDA has none
        flags.append("-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE")
    return flags


def _link_flags(libraries: Path) -> list[str]:
    """The libraries are in the process already, so the shim names them and has no path to them."""
    memlake = Path(native_library())
    torch = ["-Wl,--no-as-needed", f"-L{libraries}", "-lc10", "-lc10_cuda"]
    return ["-shared", *torch, f"-L{memlake.parent}", f"-l:{memlake.name}"]


def make_stand_ins(folder: Path) -> None:
    """Makes empty libraries with the names of PyTorch's, to link a shim where only the headers of PyTorch are.

    A shim only has their names in it, and finds the functions in the process that loads it.

    Raises:
        ConfigError: if the compiler fails.
    """
    for name in ("libc10.so", "libc10_cuda.so"):
        command = [*_compiler(), "-shared", f"-Wl,-soname,{name}", "-o", str(folder / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise ConfigError(f"{shlex.join(command)} failed: {done.stderr.strip()}")


def _fingerprint(build: TorchBuild) -> str:
    """Everything that the compiled file depends on."""
    digest = _digest_of_sources()
    texts = [build.version, platform.machine(), str(int(build.has_new_strings)), str(build.folder)]
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:16]


def _digest_of_sources() -> hashlib._Hash:
    digest = hashlib.sha256()
    for path in [*sources(), Path(include_directory()) / "memlake.h"]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest


def _why(build: TorchBuild, command: list[str], errors: str) -> str:
    first = next((line for line in errors.splitlines() if "error" in line), errors.strip()[:200] or "no message")
    return (
        f"memlake's shim cannot be compiled for PyTorch {build.version}: {first}\n"
        f"The command was: {shlex.join(command)}"
    )
