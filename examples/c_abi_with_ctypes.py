"""memlake's C functions without a C compiler: a pool through ctypes, and a Python pool that C code shares.

Runs on an emulated GPU; on a real one, drop "driver:emulated,..." and memlake.emulate().
"""

import ctypes

import memlake

lake = ctypes.CDLL(memlake.native_library())
lake.memlake_last_error.restype = ctypes.c_char_p
lake.memlake_pool_create.restype = ctypes.c_void_p
lake.memlake_pool_create.argtypes = [ctypes.c_char_p, ctypes.c_int]
lake.memlake_pool_destroy.argtypes = [ctypes.c_void_p]
lake.memlake_pool_allocate.restype = ctypes.c_void_p
lake.memlake_pool_allocate.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
lake.memlake_pool_free.argtypes = [ctypes.c_void_p, ctypes.c_void_p]


def allocate(pool: int, nbytes: int) -> int:
    """An address, or the library's own sentence as an exception."""
    address = lake.memlake_pool_allocate(pool, nbytes, None)
    if address is None and nbytes > 0:
        raise MemoryError(lake.memlake_last_error().decode())
    return address or 0


# A pool made by the C function, from one line of text.
pool = lake.memlake_pool_create(b"policy:expandable,limit:64MiB,driver:emulated,memory:1GiB", 0)
if pool is None:
    raise SystemExit(lake.memlake_last_error().decode())
address = allocate(pool, 40 * 2**20)
print(f"40 MiB at {address:#x}")
try:
    allocate(pool, 40 * 2**20)
except MemoryError as refusal:
    print(f"40 MiB more: {refusal}")
lake.memlake_pool_free(pool, address)
print("freed twice:", lake.memlake_pool_free(pool, address), lake.memlake_last_error().decode())
lake.memlake_pool_destroy(pool)

# A pool made in Python, used by both: there is one core in the process.
(gpu,) = memlake.emulate(memory="1GiB")
with memlake.Pool(gpu) as shared:
    address = allocate(shared.native_handle, 2**20)
    print(f"Python sees what C allocated: {shared.stats().requested >> 20} MiB at {address:#x}")
    lake.memlake_pool_free(shared.native_handle, address)
