"""The shim's file: compiled against real headers, once per version, by one of many processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memlake.errors import ConfigError
from memlake.torch import shim_file
from memlake.torch.shim_file import (
    MissingCompiler,
    cache_folder,
    compile_shim,
    find_shim,
    make_stand_ins,
    prebuilt_name,
    sources,
)
from memlake.torch.torch_build import TorchBuild

# A compiler that counts its calls and makes the file it was asked for.
COMPILER = """\
#!/bin/sh
echo call >> {log}
sleep 0.2
while [ "$1" != "-o" ]; do shift; done
echo made > "$2"
"""
FIND = """\
import sys
from pathlib import Path
from memlake.torch.shim_file import find_shim
from memlake.torch.torch_build import TorchBuild
print(find_shim(TorchBuild("2.13.0", 13, Path(sys.argv[1]), True)))
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMLAKE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "torch"


@pytest.fixture
def compiler_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    log = tmp_path / "calls"
    program = tmp_path / "compiler"
    program.write_text(COMPILER.format(log=log))
    program.chmod(0o755)
    monkeypatch.setenv("CXX", str(program))
    return log


def some_build(folder: Path) -> TorchBuild:
    return TorchBuild("2.13.0", 13, folder, True)


def test_the_shim_compiles_against_the_headers_of_the_installed_torch(build: TorchBuild, tmp_path: Path) -> None:
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    make_stand_ins(libraries)
    made = tmp_path / "shim.so"

    compile_shim(build, made, libraries=libraries)

    names = subprocess.run(["nm", "-D", str(made)], capture_output=True, text=True, check=True).stdout
    for function in ("memlake_shim_install", "memlake_shim_uninstall", "memlake_shim_torch_minor"):
        assert f" T {function}" in names
    assert " U memlake_pool_try_allocate" in names
    needed = subprocess.run(["readelf", "-d", str(made)], capture_output=True, text=True, check=True).stdout
    assert all(f"[{library}]" in needed for library in ("libc10.so", "libc10_cuda.so", "libmemlake.so"))
    assert "RUNPATH" not in needed
    assert sorted(tmp_path.iterdir()) == [libraries, made]  # no temporary file is left


def test_many_processes_compile_once(tmp_path: Path, cache: Path, compiler_calls: Path) -> None:
    def find(_: int) -> str:
        command = [sys.executable, "-c", FIND, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with ThreadPoolExecutor(6) as pool:
        found = set(pool.map(find, range(6)))

    assert len(found) == 1
    assert Path(found.pop()).read_text() == "made\n"
    assert compiler_calls.read_text().count("call") == 1


def test_another_version_is_another_file(tmp_path: Path, cache: Path, compiler_calls: Path) -> None:
    first = find_shim(some_build(tmp_path))
    second = find_shim(TorchBuild("2.13.1", 13, tmp_path, True))
    third = find_shim(TorchBuild("2.13.0", 13, tmp_path, False))

    assert len({first, second, third}) == 3
    assert find_shim(some_build(tmp_path)) == first
    assert compiler_calls.read_text().count("call") == 3


def test_without_a_compiler_it_says_what_to_install(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(MissingCompiler, match=r"install g\+\+ 10 or newer"):
        find_shim(some_build(tmp_path))

    assert not list(cache.glob("*.so"))


def test_a_prebuilt_shim_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shim_file, "_PREBUILT", tmp_path)
    prebuilt = tmp_path / prebuilt_name(some_build(tmp_path))
    prebuilt.touch()
    monkeypatch.setenv("PATH", "")

    assert find_shim(some_build(tmp_path)) == prebuilt


def test_a_refused_source_is_one_error_with_the_command(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)

    with pytest.raises(
        ConfigError, match=r"cannot be compiled for PyTorch 2\.13\.0: .*torch/version\.h(?s:.)*The command was:"
    ):
        find_shim(some_build(tmp_path))

    assert not [path for path in cache.iterdir() if path.suffix != ".lock"]


def test_a_compiler_that_does_not_exist_is_a_clear_error(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")

    with pytest.raises(ConfigError, match="cannot be made"):
        find_shim(some_build(tmp_path))


def test_a_cache_that_others_can_write_becomes_private(cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)

    assert cache_folder() == cache
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write every folder")
def test_a_cache_that_cannot_be_written_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    monkeypatch.setenv("MEMLAKE_CACHE", str(closed / "cache"))

    with pytest.raises(ConfigError, match="set MEMLAKE_CACHE"):
        cache_folder()


def test_a_file_in_the_place_of_the_cache_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MEMLAKE_CACHE", str(tmp_path / "file"))

    with pytest.raises(ConfigError, match="set MEMLAKE_CACHE"):
        cache_folder()


def test_the_installed_package_has_all_sources() -> None:
    names = {path.name for path in sources()}

    assert {"shim.cpp", "allocator.hpp", "device_memory.hpp", "cuda_runtime_api.h"} <= names
