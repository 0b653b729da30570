"""Stream capture, by the emulator's C functions: memlake itself offers none."""

import ctypes

import memlake

RELAXED = 2
NO_GRAPHS = 801
"""What ending an intact capture answers: it ends, but there are no graphs to give. 901: somebody spoilt it."""


def begin_capture(stream):
    library = ctypes.CDLL(str(memlake.emulator_library()))
    assert library.cuStreamBeginCapture_v2(ctypes.c_void_p(stream.handle), RELAXED) == 0


def end_capture(stream):
    """The driver's answer."""
    library = ctypes.CDLL(str(memlake.emulator_library()))
    graph = ctypes.c_void_p()
    return library.cuStreamEndCapture(ctypes.c_void_p(stream.handle), ctypes.byref(graph))
