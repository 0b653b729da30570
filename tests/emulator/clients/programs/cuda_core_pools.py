"""NVIDIA's cuda.core on whatever libcuda.so.1 there is: its resources on CUDA's memory pools allocate, copy and free,
in one process and between two."""

from __future__ import annotations

import multiprocessing

import numpy as np
from cuda.core import (
    Buffer,
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    LegacyPinnedMemoryResource,
    PinnedMemoryResource,
    Stream,
)

SIZE = 5 << 20


def fill(buffer: Buffer, value: int, stream: Stream) -> None:
    buffer.fill(value, stream=stream)
    stream.sync()


def assert_filled(buffer: Buffer, value: int, stream: Stream) -> None:
    received = LegacyPinnedMemoryResource().allocate(buffer.size)
    buffer.copy_to(received, stream=stream)
    stream.sync()
    assert np.all(np.from_dlpack(received).view(np.uint8) == value)
    received.close()


def change_in_another_process(buffer: Buffer) -> None:
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    assert_filled(buffer, 17, stream)
    fill(buffer, 18, stream)
    buffer.close(stream)
    stream.sync()


def main() -> None:
    device = Device(0)
    device.set_current()
    stream, other = device.create_stream(), device.create_stream()

    resource = device.memory_resource  # on the current pool of the device
    buffer = resource.allocate(SIZE, stream=stream)
    other.wait(stream)
    fill(buffer, 3, other)
    assert_filled(buffer, 3, stream)
    attributes = resource.attributes
    assert attributes.used_mem_current >= SIZE, attributes.used_mem_current
    assert attributes.reserved_mem_current >= attributes.used_mem_current
    assert attributes.reuse_follow_event_dependencies
    buffer.close(stream)
    stream.sync()
    assert attributes.used_mem_current == 0
    print("the default pool")

    limited = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=64 << 20))
    try:
        limited.allocate(65 << 20, stream=stream)
    except Exception as error:
        if "OUT_OF_MEMORY" not in str(error):
            raise
    else:
        raise SystemExit("a pool of 64 MiB gave 65 MiB")
    limited.allocate(64 << 20, stream=stream).close(stream)
    limited.close()
    print("a pool with a maximum")

    pinned = PinnedMemoryResource()
    host = pinned.allocate(SIZE, stream=stream)
    np.from_dlpack(host).view(np.uint8)[:] = 5
    buffer = resource.allocate(SIZE, stream=stream)
    buffer.copy_from(host, stream=stream)
    assert_filled(buffer, 5, stream)
    buffer.close(stream)
    host.close(stream)
    print("a pool of host memory")

    shared = DeviceMemoryResource(device, DeviceMemoryResourceOptions(ipc_enabled=True))
    buffer = shared.allocate(SIZE, stream=stream)
    fill(buffer, 17, stream)
    multiprocessing.set_start_method("spawn")
    process = multiprocessing.Process(target=change_in_another_process, args=(buffer,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert_filled(buffer, 18, stream)
    buffer.close(stream)
    shared.close()
    stream.sync()
    print("two processes")


if __name__ == "__main__":
    main()
