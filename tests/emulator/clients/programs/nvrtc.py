"""NVIDIA's NVRTC on any libcuda.so.1: it asks the driver for private tables, and compiles without them."""

from __future__ import annotations

from cuda.bindings import nvrtc

SOURCE = b'extern "C" __global__ void fill(int* out, int value) { out[threadIdx.x] = value; }'

error, program = nvrtc.nvrtcCreateProgram(SOURCE, b"fill.cu", 0, [], [])
assert error == 0
(error,) = nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_80"])
assert error == 0
error, size = nvrtc.nvrtcGetCUBINSize(program)
assert (error == 0, size > 0) == (True, True)
print("compiled")
