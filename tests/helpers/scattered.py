"""Scattered memory: a pool at its budget whose free memory lies between stamped live buffers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import memlake
from helpers.driver_memory import require_own_memory
from helpers.stamps import Stamp
from memlake import emulator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake import Buffer, EmulatedDevice, Stream
    from memlake.policies import LakeOptions

__all__ = ["Scattered"]


class Scattered:
    """Fills a pool with buffers and frees half of them; work on half of the freed ones is still queued.

    Args:
        devices: the devices of the pool, with ``streams="manual"``.
        policy: the options of the lake.
        nbytes: the size of each buffer.
        together: how many neighbours are freed together; as many stay live between them.
        spill: as in `memlake.Pool`.
    """

    def __init__(
        self,
        devices: Sequence[EmulatedDevice],
        policy: LakeOptions,
        nbytes: int,
        together: int = 1,
        spill: str | None = None,
    ) -> None:
        self._devices = devices
        self.pool = memlake.Pool(list(devices), policy, spill=spill)
        self._asking = devices[-1].create_stream()
        self._slow = devices[0].create_stream()
        self._rng = random.Random(nbytes)
        self._stamps: dict[Buffer, Stamp] = {}
        self._violations = len(emulator.ledger().violations)
        total = sum(device.total_memory for device in devices)
        for _ in range(total // nbytes):
            try:
                self._keep(self.pool.allocate(nbytes, stream=self._slow), self._slow)
            except memlake.OutOfMemory:
                break
        self._slow.sync()
        for number, buffer in enumerate(sorted(self._stamps, key=lambda buffer: buffer.ptr)):
            if number // together % 2 == 1:
                continue
            if number // together % 4 == 0:
                buffer.fill(0, stream=self._slow)  # queued: the memory must not be unmapped before this has run
            del self._stamps[buffer]
            buffer.close()
        self.free = total - sum(buffer.nbytes for buffer in self._stamps)
        """The bytes of the devices that no live buffer has."""

    @property
    def moved_chunks(self) -> int:
        """How many chunks the pool has moved."""
        return int(self.pool.stats().policy_counters["moved_chunks"])

    def allocate(self, nbytes: int) -> Buffer:
        """Asks for memory in one piece, on a stream that has no memory yet."""
        return self.pool.allocate(nbytes, stream=self._asking)

    def stamp(self, buffer: Buffer) -> None:
        """Stamps a buffer that was allocated."""
        self._keep(buffer, self._asking)

    def close(self, buffer: Buffer) -> None:
        """Checks a buffer and frees it."""
        self._asking.sync()
        self._stamps.pop(buffer).check(buffer)
        buffer.close()

    def check(self) -> None:
        """Fails if a live buffer changed, or the pool or the driver is not as it must be."""
        self.pool.check()
        ledger = emulator.ledger()
        assert [str(violation) for violation in ledger.violations[self._violations :]] == []
        stats = self.pool.stats()
        assert stats.num_live == len(self._stamps)
        assert sum(ledger.held(device) for device in self._devices) == stats.held
        require_own_memory(ledger, self._stamps)
        self._asking.sync()
        for buffer, stamp in self._stamps.items():
            stamp.check(buffer)

    def sync(self) -> None:
        """Waits for all queued work."""
        for device in self._devices:
            device.synchronize()

    def release(self) -> None:
        """Frees everything; all of it must go back to the driver."""
        self.sync()
        for buffer in list(self._stamps):
            self.close(buffer)
        self.pool.trim()
        stats = self.pool.stats()
        assert (stats.live, stats.pending, stats.held, stats.held_on_host) == (0, 0, 0, 0)
        self.pool.close()

    def _keep(self, buffer: Buffer, stream: Stream) -> None:
        stamp = Stamp.choose(1 + len(self._stamps), buffer.nbytes, self._rng)
        stamp.write(buffer, stream)
        self._stamps[buffer] = stamp
