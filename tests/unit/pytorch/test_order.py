"""Memory of PyTorch's streams: it is not reused before the work that uses it has run, however late that is.

The program calls the C functions that the shim calls. Its streams run step by step, so their work is late at random.
The referee is the memory itself: a read that was queued before a free must find the bytes that were written there.
"""

from __future__ import annotations

import ctypes
import random
from typing import TYPE_CHECKING

import pytest

import memlake
from helpers.abi_driver import Driver
from memlake import emulator
from memlake.torch.c_functions import core

if TYPE_CHECKING:
    from memlake import EmulatedDevice, Pool, Stream

DEVICE = 41
MIB = 2**20
WORD = 8


class Program:
    """A program as PyTorch runs it: tensors of several streams, which other streams read.

    Args:
        gpu: a device with ``streams="manual"``.
        pool: the pool that serves PyTorch's device.
        seed: decides about everything.
        tells: whether the program calls `record_stream`, as PyTorch's rules demand.
    """

    def __init__(self, gpu: EmulatedDevice, pool: Pool, seed: int, *, tells: bool = True) -> None:
        self._driver = Driver(memlake.emulator_library())
        self._gpu, self._pool, self._tells = gpu, pool, tells
        self._rng = random.Random(seed)
        self._streams = [gpu.create_stream() for _ in range(4)]
        self._live: list[tuple[int, int, int, Stream]] = []
        self._reads: list[tuple[memlake.Buffer, int]] = []
        self._host = memlake.Pool(gpu, location="host")
        library = core()
        library.memlake_pool_try_allocate.restype = ctypes.c_void_p
        library.memlake_pool_try_allocate.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        library.memlake_torch_set_pool.argtypes = [ctypes.c_int, ctypes.c_void_p]
        library.memlake_torch_record_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        library.memlake_torch_release.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
        self._core = library
        assert library.memlake_torch_set_pool(DEVICE, pool.native_handle) == 0

    def run(self, steps: int) -> None:
        """Allocates, shares and frees; the streams go on unevenly."""
        for number in range(steps):
            self._allocate(1 + number % 255)
            if self._rng.random() < 0.5:
                self._read_elsewhere()
            while len(self._live) > 12:
                self._free_one()
            for stream in self._streams:
                if self._rng.random() < 0.3:
                    emulator.step(stream, self._rng.choice([1, 4, 20]))

    def wrong_reads(self) -> int:
        """Runs all work that is left; returns how many reads found other bytes than were written there."""
        while self._live:
            self._free_one()
        self._gpu.synchronize()
        self._pool.check()
        self._core.memlake_torch_set_pool(DEVICE, None)
        return sum(slot.numpy().tobytes() != bytes([value]) * WORD for slot, value in self._reads)

    @property
    def reads(self) -> int:
        return len(self._reads)

    def _allocate(self, value: int) -> None:
        stream = self._rng.choice(self._streams)
        size = int(2 ** self._rng.uniform(9, 23))
        at = self._core.memlake_pool_try_allocate(self._pool.native_handle, size, stream.handle)
        if at is None:
            self._free_one()
            return
        assert self._driver.cuMemsetD8Async(at, value, size, stream.handle) == 0
        self._live.append((at, size, value, stream))

    def _read_elsewhere(self) -> None:
        """Another stream reads the tensor that was made last, and it is freed at once."""
        if not self._live:
            return
        at, size, value, owner = self._live.pop()
        other = self._rng.choice([stream for stream in self._streams if stream != owner])
        other.wait(owner)
        slot = self._host.allocate(WORD)
        assert self._driver.cuMemcpyDtoDAsync(slot.ptr, at + size - WORD, WORD, other.handle) == 0
        self._reads.append((slot, value))
        if self._tells:
            self._core.memlake_torch_record_stream(at, other.handle)
        assert self._core.memlake_torch_release(at, DEVICE, None) == 1

    def _free_one(self) -> None:
        at, _, _, _ = self._live.pop(self._rng.randrange(len(self._live)))
        assert self._core.memlake_torch_release(at, DEVICE, None) == 1


@pytest.mark.parametrize("policy", ["lake,aliasing:none", "lake,aliasing:prefix", "expandable", "caching", "stitch"])
@pytest.mark.parametrize("seed", range(3))
def test_no_memory_is_reused_before_the_work_that_uses_it_has_run(policy: str, seed: int) -> None:
    with memlake.emulate(memory="64MiB", streams="manual") as (gpu,):
        program = Program(gpu, memlake.Pool(gpu, policy=policy), seed)
        program.run(300)

        assert program.wrong_reads() == 0
        assert program.reads > 50


def test_the_referee_sees_a_program_that_does_not_call_record_stream() -> None:
    with memlake.emulate(memory="64MiB", streams="manual") as (gpu,):
        # caching unmaps nothing: a policy that does may unmap memory that such a program still reads.
        program = Program(gpu, memlake.Pool(gpu, policy="caching"), 0, tells=False)
        program.run(300)

        assert program.wrong_reads() > 0
