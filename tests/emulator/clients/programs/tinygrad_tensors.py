"""tinygrad on any libcuda.so.1, as its users run it (DEV=CUDA): tensors are allocated, copied and reused. No kernel."""

from __future__ import annotations

import gc

import numpy as np
from tinygrad import Device, Tensor

numbers = np.arange(1 << 20, dtype=np.float32)


def address_of(tensor: Tensor) -> int:
    return tensor.uop.buffer._buf.value


first = Tensor(numbers, device="CUDA").realize()
assert (first.numpy() == numbers).all()
print("copied both ways")

other = first.to("CUDA:1").realize()
assert (other.numpy() == numbers).all()
print("copied to another device")

freed = address_of(first)
del first
gc.collect()
again = Tensor(numbers[::-1].copy(), device="CUDA").realize()
assert (again.numpy() == numbers[::-1]).all()
print("reused" if address_of(again) == freed else "not reused")

del again, other
gc.collect()
for name in ("CUDA", "CUDA:1"):
    Device[name].synchronize()
    Device[name].allocator.free_cache()
print("freed")
