"""Stream capture, by the emulator's C functions: memlake itself offers none."""

import ctypes

import memlake

GLOBAL, RELAXED = 0, 2
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


class Graph:
    """A graph that can be launched: what a stream captures inside the block."""

    def __init__(self, stream, mode=RELAXED):
        self._library = ctypes.CDLL(str(memlake.emulator_library()))
        self._stream = stream
        self._mode = mode
        self._executable = ctypes.c_void_p()

    def __enter__(self):
        self._must("cuStreamBeginCapture_v2", ctypes.c_void_p(self._stream.handle), self._mode)
        return self

    def __exit__(self, kind, *_):
        graph = ctypes.c_void_p()
        code = self._library.cuStreamEndCapture(ctypes.c_void_p(self._stream.handle), ctypes.byref(graph))
        if kind is None:
            assert code == INTACT
            self._must("cuGraphInstantiateWithFlags", ctypes.byref(self._executable), graph, ctypes.c_ulonglong(0))
        if graph.value is not None:
            self._must("cuGraphDestroy", graph)

    def launch(self, stream=None):
        self._must("cuGraphLaunch", self._executable, ctypes.c_void_p((stream or self._stream).handle))

    def destroy(self):
        self._must("cuGraphExecDestroy", self._executable)

    def _must(self, name, *arguments):
        code = getattr(self._library, name)(*arguments)
        assert code == 0, f"{name} answered {code}"
