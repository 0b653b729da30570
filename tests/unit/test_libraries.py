import ctypes
from pathlib import Path

import memlake
from memlake.libraries import cuda_library_directory


def test_the_emulator_is_a_cuda_driver():
    library = ctypes.CDLL(memlake.emulator_library())
    version = ctypes.c_int()
    assert library.cuDriverGetVersion(ctypes.byref(version)) == 0
    assert version.value >= 11020


def test_the_native_library_is_the_native_module():
    from memlake import _native

    assert Path(memlake.native_library()).samefile(_native.__file__)


def test_the_cuda_folder_has_a_libcuda_that_is_the_emulator():
    shim = ctypes.CDLL(str(Path(cuda_library_directory()) / "libcuda.so.1"))
    emulator = ctypes.CDLL(memlake.emulator_library())
    address = ctypes.cast(shim.cuInit, ctypes.c_void_p).value
    assert address == ctypes.cast(emulator.cuInit, ctypes.c_void_p).value
