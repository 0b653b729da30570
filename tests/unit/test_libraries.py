import ctypes
from pathlib import Path

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


def test_the_cuda_folder_has_a_libcuda_that_is_the_emulator():
    shim = ctypes.CDLL(str(Path(cuda_library_directory()) / "libcuda.so.1"))
    emulator = ctypes.CDLL(memlake.emulator_library())
    address = ctypes.cast(shim.cuInit, ctypes.c_void_p).value
    assert address == ctypes.cast(emulator.cuInit, ctypes.c_void_p).value
