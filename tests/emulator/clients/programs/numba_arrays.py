"""Numba with memlake's pool as its memory: arrays are made, copied, reused and freed."""

from __future__ import annotations

import numpy as np

import memlake.numba

memlake.numba.install(limit="64MiB")

from numba import cuda  # noqa: E402  # after install(), as in a program

first = cuda.to_device(np.arange(1 << 20, dtype=np.int32))
manager = cuda.current_context().memory_manager
assert isinstance(manager, memlake.numba.MemlakeMemoryManager)
assert manager.pool.stats().allocated >= 4 << 20
assert (first.copy_to_host() == np.arange(1 << 20)).all()
address = first.device_ctypes_pointer.value
print("copied both ways")

del first
assert manager.pool.stats().live == 0
second = cuda.device_array(1 << 20, dtype=np.int32)
assert second.device_ctypes_pointer.value == address
print("reused")

free, total = cuda.current_context().get_memory_info()
assert 0 < free < total
buffer = manager.pool.allocate(1 << 20)
buffer.fill(3)
view = cuda.as_cuda_array(buffer)  # memlake's memory as Numba's array
assert (view.copy_to_host() == 3).all()
buffer.copy_from(second[: 1 << 18])
del view
buffer.close()
try:
    cuda.device_array(100 << 20, dtype=np.uint8)
except MemoryError as error:
    print("out of memory:", type(error).__name__)
try:
    second.get_ipc_handle()
except NotImplementedError as error:
    print("no handle:", str(error).split(";")[0])
try:
    memlake.numba.install()
except memlake.ConfigError as error:
    print("too late:", str(error).split(",")[0])
cuda.current_context().reset()
assert manager.pool.stats().held == 0
del second  # after the reset has freed it
print("freed")
