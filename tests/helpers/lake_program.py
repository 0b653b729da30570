"""A random program on a pool: it follows CUDA's rules of order, and sees any byte that is lost or used twice."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import memlake
from helpers.driver_memory import require_own_memory
from helpers.stamps import Stamp, Witness
from memlake import emulator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memlake import Buffer, EmulatedDevice, Pool, Stream

__all__ = ["RandomProgram"]

CHECK_EVERY = 40
STREAMS_PER_DEVICE = 2


@dataclass
class Owned:
    """A live buffer of the program."""

    number: int
    buffer: Buffer
    stamp: Stamp
    last: Stream
    """The stream that wrote it last, or that waits for the one that did."""
    users: set[Stream] = field(default_factory=set)
    """The streams that have work on it."""


class RandomProgram:
    """Allocates, stamps, reads and frees on several streams, whose work runs when `_run_some` lets it run.

    Args:
        pool: the pool; its devices have ``streams="manual"``, so the program is the same in every run.
        devices: the devices of the pool.
        seed: what decides about everything.
    """

    def __init__(self, pool: Pool, devices: Sequence[EmulatedDevice], seed: int) -> None:
        self.pool = pool
        self.refused = 0
        self.words_read = 0
        self._devices = devices
        self._rng = random.Random(seed)
        self._total = sum(device.total_memory for device in devices)
        self._granule = max(device.granularity for device in devices)
        self._streams = [device.default_stream for device in devices]
        self._streams += [device.create_stream() for device in devices for _ in range(STREAMS_PER_DEVICE)]
        self._witness = Witness(devices)
        self._live: list[Owned] = []
        self._made = 0
        self._steps = 0
        self._violations = len(emulator.ledger().violations)

    def run(self, steps: int) -> None:
        """Runs so many steps; every few of them, all that must hold is checked."""
        choices: list[tuple[int, Callable[[], None]]] = [
            (40, self._allocate),
            (30, self._free_one),
            (8, self._read_elsewhere),
            (6, self._write_elsewhere),
            (6, self._check_one),
            (3, self._order_streams),
            (3, self._gather),
            (1, self._replace_stream),
            (1, self._trim),
            (1, self._change_limit),
        ]
        weights = [weight for weight, _ in choices]
        for _ in range(steps):
            self._steps += 1
            _, act = self._rng.choices(choices, weights)[0]
            act()
            self._run_some()
            if self._steps % CHECK_EVERY == 0:
                self.check()

    def check(self) -> None:
        """Fails if the pool, the driver or the memory of a buffer is not as it must be."""
        self.pool.check()
        stats = self.pool.stats()
        assert stats.num_live == len(self._live)
        assert stats.requested - sum(owned.buffer.nbytes for owned in self._live) <= stats.pending
        ledger = emulator.ledger()
        assert [str(violation) for violation in ledger.violations[self._violations :]] == []
        assert sum(ledger.held(device) for device in self._devices) == stats.held
        require_own_memory(ledger, [owned.buffer for owned in self._live])

    def finish(self) -> None:
        """Checks every buffer, frees all of them, and gives all memory back to the driver."""
        self._wait_for_all()
        for owned in self._live:
            owned.stamp.check(owned.buffer)
        while self._live:
            self._free_one()
        self.check()
        self._wait_for_all()
        self.pool.trim()
        self.pool.check()
        stats = self.pool.stats()
        assert (stats.live, stats.pending, stats.held, stats.held_on_host) == (0, 0, 0, 0)
        self._witness.close()
        self.pool.close()

    def _size(self) -> int:
        kind = self._rng.random()
        if kind < 0.25:
            size = int(2 ** self._rng.uniform(3, 20))
        elif kind < 0.75:
            size = int(self._total * 2 ** self._rng.uniform(-8, -4))
        else:
            size = int(self._total * self._rng.uniform(0.05, 0.3))
        if self._rng.random() < 0.3:
            size = max(1, round(size / self._granule)) * self._granule
        return max(8, size)

    def _allocate(self) -> None:
        if not self._try(self._size()):
            for _ in range(self._rng.randint(1, 4)):
                self._free_one()

    def _try(self, size: int) -> bool:
        """Asks for memory; a refusal must leave everything as it was."""
        stream = self._rng.choice(self._streams)
        try:
            buffer = self.pool.allocate(size, stream=stream)
        except memlake.OutOfMemory:
            self.refused += 1
            self.pool.check()
            return False
        self._made += 1
        stamp = Stamp.choose(self._made, size, self._rng)
        stamp.write(buffer, stream)
        self._live.append(Owned(self._made, buffer, stamp, stream, {stream}))
        return True

    def _gather(self) -> None:
        """Frees about half of the buffers, then asks for most of what is free in one piece."""
        for owned in self._rng.sample(self._live, len(self._live) // 2):
            self._free(owned)
        budget = min(self._total, self.pool.limit or self._total)
        free = budget - sum(owned.buffer.nbytes for owned in self._live)
        share = 0.9
        while free > 0 and share > 0.1 and not self._try(max(8, int(free * share))):
            share -= 0.2

    def _free_one(self) -> None:
        if self._live:
            self._free(self._rng.choice(self._live))

    def _free(self, owned: Owned) -> None:
        self._live.remove(owned)
        how = self._rng.random()
        if how < 0.5:
            self._read(owned, owned.last)  # queued: it must find the stamp even if it runs after the free
        elif how < 0.6:
            self._wait_for(owned)
            owned.stamp.check(owned.buffer)
        if how > 0.85:
            # The free comes in the order of another stream, which waits for all that use the buffer.
            stream = self._rng.choice(self._streams)
            for user in owned.users | {owned.last}:
                if user.is_open and user != stream:
                    stream.wait(user)
            owned.buffer.close(stream=stream)
        else:
            owned.buffer.close()

    def _access(self, owned: Owned, stream: Stream) -> None:
        """Lets work of a stream come behind the last write."""
        if stream != owned.last:
            stream.wait(owned.last)

    def _read(self, owned: Owned, stream: Stream) -> None:
        self._access(owned, stream)
        offset = self._rng.choice(list(owned.stamp.words))
        what = f"step {self._steps}, buffer {owned.number} of {owned.buffer.nbytes} bytes, {stream!r}"
        self._witness.read(owned.buffer, owned.stamp, offset, stream, what)
        self._note_use(owned, stream)

    def _note_use(self, owned: Owned, stream: Stream) -> None:
        owned.users.add(stream)
        owned.buffer.record_stream(stream)

    def _read_elsewhere(self) -> None:
        if self._live:
            self._read(self._rng.choice(self._live), self._rng.choice(self._streams))

    def _write_elsewhere(self) -> None:
        """Writes a new stamp in the order of any stream, behind all that use the buffer."""
        if not self._live:
            return
        owned, stream = self._rng.choice(self._live), self._rng.choice(self._streams)
        for user in owned.users:
            if user != stream:
                stream.wait(user)
        self._made += 1
        owned.stamp = Stamp.choose(self._made, owned.buffer.nbytes, self._rng)
        owned.stamp.write(owned.buffer, stream)
        owned.last = stream
        self._note_use(owned, stream)

    def _check_one(self) -> None:
        if self._live:
            owned = self._rng.choice(self._live)
            self._wait_for(owned)
            owned.stamp.check(owned.buffer)

    def _order_streams(self) -> None:
        one, two = self._rng.sample(self._streams, 2)
        one.wait(two)

    def _replace_stream(self) -> None:
        """Destroys a stream that has queued work; another one comes behind it and takes its buffers over."""
        index = self._rng.randrange(len(self._devices), len(self._streams))
        gone = self._streams[index]
        self._streams[index] = heir = gone.device.create_stream()
        heir.wait(gone)
        for owned in self._live:
            if gone in owned.users:
                owned.users = owned.users - {gone} | {heir}
                owned.buffer.record_stream(heir)
            if owned.last == gone:
                owned.last = heir
        gone.close()

    def _trim(self) -> None:
        self.pool.trim(int(self._total * self._rng.random()))
        self.pool.check()

    def _change_limit(self) -> None:
        self.pool.limit = self._rng.choice([None, int(self._total * self._rng.uniform(0.6, 1))])

    def _run_some(self) -> None:
        """Lets streams go on, unevenly: some run far ahead of others."""
        for stream in self._streams:
            if self._rng.random() < 0.2:
                emulator.step(stream, self._rng.choice([1, 5, 50]))

    def _wait_for(self, owned: Owned) -> None:
        for stream in owned.users | {owned.last}:
            stream.sync()

    def _wait_for_all(self) -> None:
        for device in self._devices:
            device.synchronize()
        self.words_read += self._witness.check()
