import ctypes
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import memlake
from memlake.libraries import cuda_library_directory, include_directory


def test_the_emulator_is_a_cuda_driver():
    library = ctypes.CDLL(memlake.emulator_library())
    version = ctypes.c_int()
    assert library.cuDriverGetVersion(ctypes.byref(version)) == 0
    assert version.value >= 11020


def test_the_native_library_is_the_one_that_the_native_module_uses():
    from memlake import _native

    assert _native.__version__
    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libmemlake.so" in line}
    (path,) = loaded
    assert Path(memlake.native_library()).samefile(path)


def test_the_header_lies_beside_the_library():
    assert (Path(include_directory()) / "memlake.h").exists()
    assert Path(include_directory()).parent == Path(memlake.native_library()).parent.parent


@pytest.mark.parametrize("name", ["libcuda.so.1", "libcuda.so"])
def test_the_cuda_folder_has_a_libcuda_that_is_the_emulator(name):
    shim = ctypes.CDLL(str(Path(cuda_library_directory()) / name))
    emulator = ctypes.CDLL(memlake.emulator_library())
    found = ctypes.c_void_p()
    assert shim.cuGetProcAddress_v2(b"cuInit", ctypes.byref(found), 12000, ctypes.c_uint64(0), None) == 0
    assert found.value == ctypes.cast(emulator.cuInit, ctypes.c_void_p).value
    assert shim.memlakeEmulatorAddDevices(b"memory=none", None, None) == 1  # refused: an exception inside is caught


def test_a_shim_defines_every_function_of_the_emulator():
    folder = Path(cuda_library_directory())
    own = exported(memlake.emulator_library())
    assert {name for name in own if name.startswith("cu")} == exported(folder / "libcuda.so.1")
    assert {name for name in own if name.startswith("nvml")} == exported(folder / "libnvidia-ml.so.1")


def test_installed_libraries_do_not_name_the_folder_they_were_built_in():
    libraries = [path for path in Path(memlake.__file__).parent.rglob("*.so*") if path.is_file()]
    assert len(libraries) >= 6
    named = {path.name: run_path(path) for path in libraries}
    assert {name: paths for name, paths in named.items() if not all(part.startswith("$ORIGIN") for part in paths)} == {}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_a_c_program_is_linked_with_lcuda_and_runs_on_the_emulator(tmp_path):
    (tmp_path / "program.c").write_text(C_PROGRAM)
    folder = cuda_library_directory()
    link = ["gcc", "program.c", "-o", "program", "-L", folder, "-lcuda", "-lnvidia-ml"]
    subprocess.run(link, cwd=tmp_path, check=True)
    assert {"libcuda.so.1", "libnvidia-ml.so.1"} <= needed(tmp_path / "program")
    environment = os.environ | {"LD_LIBRARY_PATH": folder, "MEMLAKE_EMULATOR": "devices=3,backing=none"}
    done = subprocess.run(["./program"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "3 3 101\n"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_memlake_emulate_lets_a_build_link_with_lcuda(tmp_path):
    (tmp_path / "program.c").write_text(C_PROGRAM)
    build = "gcc program.c -o program -lcuda -lnvidia-ml && ./program"
    command = [sys.executable, "-m", "memlake", "emulate", "--devices=2", "--", "sh", "-c", build]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "2 2 101\n"


C_PROGRAM = """
#include <stdio.h>
int cuInit(unsigned), cuDeviceGetCount(int*), cuDeviceGet(int*, int);
int nvmlInit_v2(void), nvmlDeviceGetCount_v2(unsigned*);
int main(void) {
  int count = -1, device = -1;
  unsigned all = 0;
  if (cuInit(0) != 0 || cuDeviceGetCount(&count) != 0) return 1;
  if (nvmlInit_v2() != 0 || nvmlDeviceGetCount_v2(&all) != 0) return 2;
  printf("%d %u %d\\n", count, all, cuDeviceGet(&device, 99));
  return 0;
}
"""


def dynamic_section(path):
    """The (tag, value) pairs of a 64-bit little-endian library or program; values that are names are read."""
    data = Path(path).read_bytes()
    offset, entry_size, entries = (*struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54))
    headers = [struct.unpack_from("<IIQQQQQQ", data, offset + entry_size * i) for i in range(entries)]
    loads = [(address, start, size) for kind, _, start, address, _, size, _, _ in headers if kind == 1]
    (begin, length) = next((start, size) for kind, _, start, _, _, size, _, _ in headers if kind == 2)
    pairs = [struct.unpack_from("<QQ", data, begin + 16 * i) for i in range(length // 16)]
    strings = dict(pairs)[5]
    at = next(start + strings - address for address, start, size in loads if address <= strings < address + size)
    text = lambda value: data[at + value : data.index(b"\0", at + value)].decode()  # noqa: E731
    return [(tag, text(value) if tag in (1, 14, 15, 29) else value) for tag, value in pairs]


def needed(path):
    return {value for tag, value in dynamic_section(path) if tag == 1}


def run_path(path):
    return [part for tag, value in dynamic_section(path) if tag in (15, 29) for part in value.split(":")]


def exported(path):
    """The functions that a library defines, with the names of CUDA and NVML."""
    nm = subprocess.run(["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True)
    names = {line.split()[-1].split("@")[0] for line in nm.stdout.splitlines()}
    return {name for name in names if re.match(r"(cu|nvml)[A-Z]", name)}
