"""How long the emulator takes to start with 64 devices of 80 GiB: from loading its library to a context on each device.

Each pass is a process of its own, because a process has one driver. The time is measured inside it, without the start
of Python.
"""

import json
import os
import subprocess
import sys

import memlake
from benchmarks.figures import Figure, Figures, Goal

PASSES = 9
SETTINGS = "devices=64,memory=80GiB,backing=none"
PROGRAM = """
import ctypes, json, sys, time
begin = time.perf_counter()
driver = ctypes.CDLL(sys.argv[1])
assert driver.cuInit(0) == 0
ready = time.perf_counter()
context = ctypes.c_void_p()
for device in range(64):
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
end = time.perf_counter()
print(json.dumps([1e3 * (ready - begin), 1e3 * (end - ready)]))
"""


def measure() -> Figures:
    """Milliseconds to start, and to make a context on each device."""
    environment = os.environ | {"MEMLAKE_EMULATOR": SETTINGS}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    command = [sys.executable, "-c", PROGRAM, memlake.emulator_library()]
    passes = [
        json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
        for _ in range(PASSES)
    ]
    starts, contexts = zip(*passes, strict=True)
    figures = {"start": Figure.median(starts, "ms"), "contexts": Figure.median(contexts, "ms")}
    return Figures("emulator_start", figures, Goal("start", 50))
