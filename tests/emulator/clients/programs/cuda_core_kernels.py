"""NVIDIA's cuda.core on whatever libcuda.so.1 there is: kernels from PTX are loaded, asked and launched, and the memory
around them is allocated, copied, reused and freed. With the argument "nvrtc" they are compiled by NVRTC first."""

from __future__ import annotations

import sys

import numpy as np
from cuda.core import Device, LaunchConfig, ObjectCode, Program, ProgramOptions, launch

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u32 count) { ret; }
"""

SOURCE = """
extern "C" __global__ void add(float* a, const float* b, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) a[i] += b[i];
}
"""

COUNT = 1 << 16


def main() -> None:
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    if sys.argv[1:] == ["nvrtc"]:
        code = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin")
    else:
        code = ObjectCode.from_ptx(PTX)
    kernel = code.get_kernel("add")
    print([(part.offset, part.size) for part in kernel.arguments_info])

    addresses = set()
    for _ in range(3):
        a, b = (device.memory_resource.allocate(4 * COUNT, stream=stream) for _ in range(2))
        addresses |= {int(a.handle), int(b.handle)}
        a.fill(0, stream=stream)
        b.fill(0, stream=stream)
        launch(stream, LaunchConfig(grid=COUNT // 256, block=256), kernel, a.handle, b.handle, np.uint32(COUNT))
        a.close(stream)
        b.close(stream)
    stream.sync()
    print(f"3 launches, {len(addresses)} addresses")


main()
