"""Stream capture, by the emulator's C functions: memlake itself offers none."""

import ctypes

import memlake

RELAXED = 2
INTACT = 0
"""What ending an intact capture answers. 901: somebody spoilt it."""


def begin_capture(stream):
    library = ctypes.CDLL(str(memlake.emulator_library()))
    assert library.cuStreamBeginCapture_v2(ctypes.c_void_p(stream.handle), RELAXED) == 0


def end_capture(stream):
    """Ends the capture and destroys its graph. Returns the driver's answer."""
    library = ctypes.CDLL(str(memlake.emulator_library()))
    graph = ctypes.c_void_p()
    code = library.cuStreamEndCapture(ctypes.c_void_p(stream.handle), ctypes.byref(graph))
    if graph.value is not None:
        assert library.cuGraphDestroy(graph) == 0
    return code
