"""NVIDIA's cuda.core on whatever libcuda.so.1 there is: its VirtualMemoryResource allocates, copies and frees."""

from __future__ import annotations

import numpy as np
from cuda.core import Device, LegacyPinnedMemoryResource, VirtualMemoryResource, VirtualMemoryResourceOptions


def main() -> None:
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    pinned = LegacyPinnedMemoryResource()
    for options in (VirtualMemoryResourceOptions(handle_type=None), VirtualMemoryResourceOptions()):
        buffer = VirtualMemoryResource(device, config=options).allocate(5 << 20)
        print(f"{buffer.size} bytes at {int(buffer.handle):#x}")
        sent, received = pinned.allocate(buffer.size), pinned.allocate(buffer.size)
        stamp = np.from_dlpack(sent).view(np.uint8)
        stamp[:] = np.arange(stamp.size, dtype=np.uint32).astype(np.uint8)
        buffer.copy_from(sent, stream=stream)
        stream.record().sync()
        buffer.copy_to(received, stream=stream)
        stream.sync()
        assert np.array_equal(np.from_dlpack(received).view(np.uint8), stamp)
        del stamp
        for used in (buffer, sent, received):
            used.close()
    print("copied and freed")


main()
