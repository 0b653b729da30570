"""Stamps in the memory of buffers: words that no other buffer has, written and read in the order of streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import memlake

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from memlake import Buffer, Device, Stream

__all__ = ["Stamp", "Witness"]

WORD = 8
MOST_WORDS = 24
LARGEST_DENSE = 4 * 2**20


@dataclass(frozen=True)
class Stamp:
    """What the memory of one buffer contains: words at some offsets, and one value in all other bytes if it is dense.

    Attributes:
        words: the value by its offset. It names the buffer and the offset, so a word of another buffer, or of another
            place in this one, is told apart.
        dense: the value of the bytes between the words; None: these bytes were not written.
    """

    words: dict[int, int]
    dense: int | None

    @classmethod
    def choose(cls, number: int, nbytes: int, rng: random.Random) -> Stamp:
        """Chooses the stamp of the buffer with this number: the first word, the last one, and some between them."""
        places = nbytes // WORD
        count = min(places, rng.randint(4, MOST_WORDS))
        offsets = {0, places - 1} | {rng.randrange(places) for _ in range(count - 2)} if places else set()
        dense = 1 + number % 255 if nbytes <= LARGEST_DENSE and rng.random() < 0.5 else None
        return cls({offset * WORD: number << 40 | offset for offset in sorted(offsets)}, dense)

    def write(self, buffer: Buffer, stream: Stream) -> None:
        """Queues the writes."""
        if self.dense is not None:
            buffer.fill(self.dense, stream=stream)
        for offset, word in self.words.items():
            buffer.copy_from(word.to_bytes(WORD, "little"), offset=offset, stream=stream)

    def check(self, buffer: Buffer) -> None:
        """Reads the memory with the CPU. The streams that use it must have been waited for."""
        view = buffer.numpy()
        for offset, word in self.words.items():
            found = int.from_bytes(view[offset : offset + WORD].tobytes(), "little")
            assert found == word, f"offset {offset} of {buffer!r} has {found:#x}, written was {word:#x}"
        if self.dense is not None:
            others = int(np.count_nonzero(view != self.dense))
            assert others <= WORD * len(self.words), f"{others} bytes of {buffer!r} are not {self.dense}"


class Witness:
    """Reads stamps in the order of streams: queued copies write them to memory of the host, which is checked later."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._pool = memlake.Pool(list(devices), location="host")
        self._idle: list[Buffer] = []
        self._reads: list[tuple[Buffer, int, str]] = []

    def read(self, buffer: Buffer, stamp: Stamp, offset: int, stream: Stream, what: str) -> None:
        """Queues the read of one word of a stamp."""
        slot = self._idle.pop() if self._idle else self._pool.allocate(WORD)
        buffer.copy_to(slot, offset=offset, stream=stream)
        self._reads.append((slot, stamp.words[offset], f"{what}, offset {offset}"))

    def check(self) -> int:
        """Compares all that was read. Every stream must have been waited for. Returns the number of words."""
        count = len(self._reads)
        for slot, wanted, what in self._reads:
            found = int(slot.numpy("uint64")[0])
            assert found == wanted, f"{what}: a queued read found {found:#x}, written was {wanted:#x}"
            self._idle.append(slot)
        self._reads.clear()
        return count

    def close(self) -> None:
        """Gives the memory back."""
        for slot in self._idle:
            slot.close()
        self._pool.close()
