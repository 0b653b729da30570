"""Numba on whatever libcuda.so.1 there is: a kernel is compiled and launched, and its arrays are copied and freed."""

from __future__ import annotations

import warnings

import numpy as np
from numba import cuda

warnings.simplefilter("ignore")  # Numba warns that the grid is small


@cuda.jit
def increase(values):  # type: ignore[no-untyped-def]
    """Adds one to each value."""
    index = cuda.grid(1)
    if index < values.size:
        values[index] += 1


def main() -> None:
    values = np.arange(1000, dtype=np.float32)
    on_device = cuda.to_device(values)
    increase[8, 128](on_device)
    cuda.synchronize()
    print("skipped" if np.array_equal(on_device.copy_to_host(), values) else "ran")
    del on_device
    cuda.current_context().deallocations.clear()
    print("freed")


main()
