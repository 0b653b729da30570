"""Snapshots as PyTorch writes them, made without PyTorch: a job on the large pool of the native allocator.

The keys are those of torch 2.13's own files; `tests/exact/test_torch_snapshots.py` compares memlake with these.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

MIB = 2**20
BASE = 0x7F0000000000
SPACING = 2**36
"""The distance of two segments, so that they never touch."""
# What each version added, as (key, version); torch 2.13 has all.
OF_EVENTS = (("time_us", (2, 2)), ("compile_context", (2, 8)), ("user_metadata", (2, 10)), ("pool_id", (2, 12)))
OF_SNAPSHOTS = (("allocator_settings", (2, 3)), ("external_annotations", (2, 6)))
FRAMES = [{"filename": "/home/someone/train.py", "line": 12, "name": "forward"}]


def frame_at(place: str) -> dict[str, Any]:
    """A frame of a stack as PyTorch writes it, of a place such as "/home/someone/train.py:12 forward"."""
    where, _, name = place.partition(" ")
    filename, _, line = where.rpartition(":")
    return {"filename": filename, "line": int(line), "name": name}


@dataclass
class Piece:
    """A block of a segment."""

    address: int
    nbytes: int
    requested: int = 0
    is_live: bool = False


class Refused(Exception):  # noqa: N818
    """The job asked for more than its device has."""


class TorchJob:
    """A job that asks PyTorch's native allocator for 10 MiB or more at a time, and its snapshot.

    Args:
        capacity: the memory of the device, in MiB.
        torch: the version whose keys the snapshot has.
        stacks: whether stacks are recorded.
    """

    def __init__(self, capacity: int = 1024, torch: tuple[int, int] = (2, 13), *, stacks: bool = True) -> None:
        self.capacity = capacity * MIB
        self.torch = torch
        self.stacks = stacks
        self.is_recording = True
        self.frames_now = FRAMES
        self.events: list[dict[str, Any]] = []
        self.segments: list[list[Piece]] = []
        self.frames: dict[int, list[dict[str, Any]]] = {}
        self.pools: dict[int, tuple[int, int]] = {}
        self.settings: dict[str, Any] = {
            "PYTORCH_CUDA_ALLOC_CONF": "",
            "max_split_size": -1,
            "garbage_collection_threshold": 0.0,
            "expandable_segments": False,
            "roundup_power2_divisions": {str(2**power): 0 for power in range(16)},
        }
        self._num_segments = 0

    @property
    def held(self) -> int:
        return sum(piece.nbytes for segment in self.segments for piece in segment)

    def alloc_at(self, place: str, mib: float, *below: str) -> int:
        """Asks for memory at a call site such as "/home/someone/train.py:12 forward", which calls functions below."""
        self.frames_now = [*({"filename": "??", "line": 0, "name": name} for name in below), frame_at(place)]
        try:
            return self.alloc(mib)
        finally:
            self.frames_now = FRAMES

    def alloc(self, mib: float, pool: tuple[int, int] = (0, 0)) -> int:
        """Asks for memory and returns its address."""
        size = int(mib * MIB)
        free = [
            (piece.nbytes, piece.address, segment, piece)
            for segment in self.segments
            if self.pools[segment[0].address] == pool
            for piece in segment
            if not piece.is_live and piece.nbytes >= size
        ]
        if free:
            _, _, segment, piece = min(free, key=lambda one: one[:2])
        else:
            segment = self._new_segment(size, pool)
            piece = segment[0]
        if piece.nbytes - size > MIB:
            rest = Piece(piece.address + size, piece.nbytes - size)
            segment.insert(segment.index(piece) + 1, rest)
            piece.nbytes = size
        piece.requested, piece.is_live = size, True
        self.frames[piece.address] = self.frames_now if self.stacks and self.is_recording else []
        self._event("alloc", piece.address, size, pool)
        return piece.address

    def free(self, address: int) -> None:
        """Gives memory back."""
        segment, place = next(
            (segment, place)
            for segment in self.segments
            for place, piece in enumerate(segment)
            if piece.address == address and piece.is_live
        )
        piece = segment[place]
        pool = self.pools[segment[0].address]
        self._event("free_requested", address, piece.requested, pool)
        self._event("free_completed", address, piece.requested, pool)
        piece.is_live = False
        for left in (place, place - 1):
            if 0 <= left < len(segment) - 1 and not segment[left].is_live and not segment[left + 1].is_live:
                segment[left].nbytes += segment.pop(left + 1).nbytes

    def snapshot(self, *, max_entries: int | None = None) -> dict[str, Any]:
        """The snapshot, with a ring of so many events."""
        events = self.events if max_entries is None else self.events[-max_entries:]
        lacking = {key for key, version in OF_EVENTS if self.torch < version}
        segments = [self._segment(segment) for segment in self.segments]
        events = [{key: value for key, value in event.items() if key not in lacking} for event in events]
        whole: dict[str, Any] = {"segments": segments, "device_traces": [events]}
        more: dict[str, Any] = {"allocator_settings": self.settings, "external_annotations": []}
        return whole | {key: more[key] for key, version in OF_SNAPSHOTS if self.torch >= version}

    def save(self, path: Path, **options: Any) -> Path:
        """Writes the snapshot to a file and returns its path."""
        path.write_bytes(pickle.dumps(self.snapshot(**options), protocol=4))
        return path

    def _new_segment(self, size: int, pool: tuple[int, int]) -> list[Piece]:
        nbytes = -(-size // (2 * MIB)) * 2 * MIB
        if self.held + nbytes > self.capacity:
            # PyTorch releases every free segment of the default pool and tries again.
            for segment in [one for one in self.segments if len(one) == 1 and not one[0].is_live]:
                if self.pools[segment[0].address] == (0, 0):
                    self.segments.remove(segment)
                    self._event("segment_free", segment[0].address, segment[0].nbytes, (0, 0))
        if self.held + nbytes > self.capacity:
            self._event("oom", None, size, pool, device_free=self.capacity - self.held)
            raise Refused(f"{size} bytes")
        segment = [Piece(BASE + self._num_segments * SPACING, nbytes)]
        self._num_segments += 1
        self.segments.append(segment)
        self.pools[segment[0].address] = pool
        self._event("segment_alloc", segment[0].address, nbytes, pool)
        return segment

    def _event(self, action: str, address: int | None, size: int, pool: tuple[int, int], **more: Any) -> None:
        if self.is_recording:
            self.events.append(
                {"action": action, **({} if address is None else {"addr": address}), "size": size, "stream": 0,
                 "time_us": 1_700_000_000_000_000 + len(self.events), "compile_context": "N/A", "user_metadata": "",
                 "pool_id": pool, "frames": self.frames_now if self.stacks else [], **more}
            )  # fmt: skip

    def _segment(self, pieces: list[Piece]) -> dict[str, Any]:
        blocks = [
            {"address": piece.address, "size": piece.nbytes, "requested_size": piece.requested,
             "state": "active_allocated" if piece.is_live else "inactive",
             "frames": self.frames.get(piece.address, []) if piece.is_live else []}
            for piece in pieces
        ]  # fmt: skip
        live = sum(piece.nbytes for piece in pieces if piece.is_live)
        return {
            "device": 0, "address": pieces[0].address, "total_size": sum(piece.nbytes for piece in pieces),
            "allocated_size": live, "active_size": live, "requested_size": live, "stream": 0, "segment_type": "large",
            "segment_pool_id": self.pools[pieces[0].address], "is_expandable": False, "frames": [], "blocks": blocks,
        }  # fmt: skip


def scattered_job(**options: Any) -> TorchJob:
    """A job that dies of fragmentation on 1 GiB: 480 MiB are free, in pieces of at most 40 MiB, and it asks for 100."""
    job = TorchJob(1024, **options)
    wide = job.alloc(960)
    job.free(wide)
    blocks = [job.alloc(40) for _ in range(24)]
    for block in blocks[::2]:
        job.free(block)
    try:
        job.alloc(100)
    except Refused:
        return job
    raise AssertionError("the job should have died")


def late_job(held: int = 500) -> TorchJob:
    """A job that held so many MiB before the recording, 40 of them in use, and has 140 live in the recorded part."""
    job = TorchJob()
    job.is_recording = False
    job.free(job.alloc(held))
    job.alloc(40)
    job.is_recording = True
    for _ in range(7):
        job.free(job.alloc(100))
    return job


def roomy_job(mib: int = 860, **options: Any) -> TorchJob:
    """A job that fits on 1 GiB: it has so many MiB live once, and then blocks of 40 MiB with gaps."""
    job = TorchJob(1024, **options)
    job.free(job.alloc(mib))
    blocks = [job.alloc(40) for _ in range(20)]
    for block in blocks[::2]:
        job.free(block)
    return job


def state_job() -> TorchJob:
    """A job whose snapshot has no history."""
    job = TorchJob()
    job.free(job.alloc(500))
    job.alloc(40)
    job.events.clear()
    return job
