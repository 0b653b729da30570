"""cuda.core with memlake's pool as its memory resource: allocates, copies, fills and frees in the order of streams."""

from __future__ import annotations

import numpy as np
from cuda.core import Device, LegacyPinnedMemoryResource

import memlake
from memlake.cuda_core import MemlakeResource

SIZE = 5 << 20

device = Device(0)
device.set_current()
pool = memlake.Pool(memlake.devices()[0])
resource = MemlakeResource(pool)
device.memory_resource = resource
stream = device.create_stream()

buffer = device.allocate(SIZE, stream=stream)
assert buffer.memory_resource is resource
assert (buffer.size, buffer.device_id, buffer.is_device_accessible, buffer.is_host_accessible) == (SIZE, 0, True, False)
buffer.fill(17, stream=stream)
received = LegacyPinnedMemoryResource().allocate(SIZE)
buffer.copy_to(received, stream=stream)
stream.sync()
assert np.all(np.from_dlpack(received).view(np.uint8) == 17)
print("filled and copied")

address = int(buffer.handle)
buffer.close(stream)
again = device.allocate(SIZE, stream=stream)
assert int(again.handle) == address, "memory that was freed on a stream is reused there at once"
print("reused on its stream")

memory = pool.allocate(SIZE, stream=stream)
memory.copy_from(again, stream=stream)  # a cuda.core buffer as the source of a copy
memory.copy_to(again, stream=stream)
stream.sync()
memory.close()
empty = device.allocate(0, stream=stream)
empty.close(stream)
again.close(stream)
try:
    resource.deallocate(address, SIZE, stream=stream)
except memlake.InvalidFree as error:
    print("a second free:", error)
stream.sync()
assert pool.stats().allocated == 0
received.close()
