"""A naive model of virtual memory and a seeded random walk that does the same to a driver and to the model."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from helpers.abi_types import ACCESS_NONE, ACCESS_READ, ACCESS_READ_WRITE, Result

if TYPE_CHECKING:
    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

STAMP_BYTES = 16


@dataclass
class Chunk:
    """A handle as the model knows it."""

    handle: int
    size: int
    device: int
    references: int = 1
    stamps: dict[int, bytes] = field(default_factory=dict)  # by granule, where anything was written


@dataclass
class Mapping:
    """A prefix of a chunk, visible at an address."""

    address: int
    size: int
    chunk: Chunk
    access: dict[int, int]  # by device


class RandomWalk:
    """Does only what the contract allows, so every call must succeed; `check` compares all there is to compare."""

    def __init__(self, world: World, expect: Expectations, seed: int) -> None:
        self.world = world
        self.expect = expect
        self.random = random.Random(seed)
        expect.note = f"MEMLAKE_SEED={seed} walks the same way again"
        self.granule = world.granularity
        self.reservations: dict[int, int] = {}
        self.mappings: dict[int, Mapping] = {}
        self.chunks: dict[int, Chunk] = {}
        self.stamp_count = 0
        self.done: Counter[str] = Counter()

    def step(self) -> None:
        """One legal call."""
        steps = (self._reserve, self._create, self._retain, self._release, self._map, self._map, self._set_access)
        action = self.random.choice((*steps, self._unmap, self._free_addresses, self._stamp))
        if action():
            self.done[action.__name__.lstrip("_")] += 1

    def _ok(self, what: str, code: int) -> None:
        self.expect(f"{what} in a random walk", code, Result.SUCCESS, "I")

    # -- steps: each returns whether there was anything to do ---------------------------------------------------------

    def _reserve(self) -> bool:
        if len(self.reservations) >= 6:
            return False
        size = self.random.randint(1, 12) * self.granule
        code, address = self.world.reserve(size)
        self._ok("reserve", code)
        self.reservations[address] = size
        return True

    def _free_addresses(self) -> bool:
        empty = [a for a, size in self.reservations.items() if not self._mappings_in(a, size)]
        if not empty:
            return False
        address = self.random.choice(empty)
        self._ok("free", self.world.address_free(address, self.reservations.pop(address)))
        return True

    def _create(self) -> bool:
        if len(self.chunks) >= 12:
            return False
        size, device = self.random.randint(1, 4) * self.granule, self.random.choice(self.world.devices)
        code, handle = self.world.create(size, device)
        self._ok("create", code)
        self.expect.that("a new handle is not one of those in use", handle not in self.chunks, "I")
        self.chunks[handle] = Chunk(handle, size, device)
        return True

    def _retain(self) -> bool:
        if not self.mappings:
            return False
        mapping = self.random.choice(list(self.mappings.values()))
        code, handle = self.world.retain(mapping.address + self.random.randrange(mapping.size))
        self._ok("retain", code)
        self.expect.equal("the retained handle", handle, mapping.chunk.handle, "D")
        mapping.chunk.references += 1
        return True

    def _release(self) -> bool:
        referenced = [chunk for chunk in self.chunks.values() if chunk.references]
        if not referenced:
            return False
        chunk = self.random.choice(referenced)
        self._ok("release", self.world.release(chunk.handle))
        chunk.references -= 1
        self._forget_if_dead(chunk)
        return True

    def _map(self) -> bool:
        referenced = [chunk for chunk in self.chunks.values() if chunk.references]
        places = [a for start, size in self.reservations.items() for a in self._unmapped(start, size)]
        if not referenced or not places:
            return False
        chunk, address = self.random.choice(referenced), self.random.choice(places)
        room = 1
        while room * self.granule < chunk.size and address + room * self.granule in places:
            if not self._same_reservation(address, address + room * self.granule):
                break
            room += 1
        size = self.random.randint(1, room) * self.granule
        self._ok("map", self.world.map(address, size, chunk.handle))
        self.mappings[address] = Mapping(address, size, chunk, dict.fromkeys(self.world.devices, ACCESS_NONE))
        return True

    def _unmap(self) -> bool:
        run = self._adjacent_mappings()
        if not run:
            return False
        self._ok("unmap", self.world.unmap(run[0].address, sum(mapping.size for mapping in run)))
        for mapping in run:
            del self.mappings[mapping.address]
            self._forget_if_dead(mapping.chunk)
        return True

    def _set_access(self) -> bool:
        run = self._adjacent_mappings()
        if not run:
            return False
        flags = self.random.choice((ACCESS_NONE, ACCESS_READ, ACCESS_READ_WRITE, ACCESS_READ_WRITE))
        devices = self.random.sample(self.world.devices, self.random.randint(1, len(self.world.devices)))
        size = sum(mapping.size for mapping in run)
        self._ok("set access", self.world.access(run[0].address, size, flags, devices))
        for mapping in run:
            mapping.access |= dict.fromkeys(devices, flags)
        return True

    def _stamp(self) -> bool:
        """Writes a new stamp at the start of a granule, through any address from which the first device may write."""
        writable = [m for m in self.mappings.values() if m.access[self.world.device] == ACCESS_READ_WRITE]
        if not writable:
            return False
        mapping = self.random.choice(writable)
        place = self.random.randrange(mapping.size // self.granule)
        self.stamp_count += 1
        stamp = self.stamp_count.to_bytes(STAMP_BYTES, "big")
        self._ok("write", self.world.write(mapping.address + place * self.granule, stamp))
        mapping.chunk.stamps[place] = stamp
        return True

    # -- comparing ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """The sum of handle sizes is what is taken; each granule of each reservation shows what the model says."""
        for device in self.world.devices:
            taken = self.world.free_at_start[device] - self.world.free_memory(device)
            held = sum(chunk.size for chunk in self.chunks.values() if chunk.device == device)
            self._equal("bytes taken on a device", taken, held)
        for start, size in self.reservations.items():
            for address in range(start, start + size, self.granule):
                self._check_granule(address)

    def _check_granule(self, address: int) -> None:
        mapping = self._mapping_at(address)
        code, handle = self.world.retain(address)
        if mapping is None:
            self._equal("retain where nothing is mapped", code, int(Result.INVALID_VALUE))
            return
        self._equal("the handle there", (code, handle), (0, mapping.chunk.handle))
        self.world.must("cuMemRelease", self.world.release(handle))
        self._equal("the mapping there", self.world.address_range(address), (0, mapping.address, mapping.size))
        for device, flags in mapping.access.items():
            self._equal("the access there", self.world.get_access(address, device), (0, flags))
        stamp = mapping.chunk.stamps.get((address - mapping.address) // self.granule)
        if stamp is not None and mapping.access[self.world.device] != ACCESS_NONE:
            self._equal("the bytes there", self.world.read(address, STAMP_BYTES), (0, stamp))

    def _equal(self, what: str, got: object, want: object) -> None:
        self.expect.equal(f"{what}, in a random walk", got, want, "I")

    # -- the model's own questions ------------------------------------------------------------------------------------

    def _mappings_in(self, start: int, size: int) -> list[Mapping]:
        return [mapping for mapping in self.mappings.values() if start <= mapping.address < start + size]

    def _mapping_at(self, address: int) -> Mapping | None:
        return next((m for m in self.mappings.values() if m.address <= address < m.address + m.size), None)

    def _unmapped(self, start: int, size: int) -> list[int]:
        return [a for a in range(start, start + size, self.granule) if self._mapping_at(a) is None]

    def _same_reservation(self, one: int, other: int) -> bool:
        return any(
            start <= one < start + size and start <= other < start + size for start, size in self.reservations.items()
        )

    def _adjacent_mappings(self) -> list[Mapping]:
        """A run of one to three mappings, each ending where the next begins, in one reservation."""
        if not self.mappings:
            return []
        run = [self.random.choice(list(self.mappings.values()))]
        for _ in range(self.random.randint(0, 2)):
            after = self.mappings.get(run[-1].address + run[-1].size)
            if after is None or not self._same_reservation(run[0].address, after.address):
                break
            run.append(after)
        return run

    def _forget_if_dead(self, chunk: Chunk) -> None:
        if not chunk.references and all(mapping.chunk is not chunk for mapping in self.mappings.values()):
            del self.chunks[chunk.handle]
