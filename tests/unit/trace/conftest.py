"""Small files of every format, and snapshots made here: nobody else's data is needed to test the readers."""

from __future__ import annotations

import gzip
import io
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from memlake import Trace

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024**2
BASE = 0x7F0000000000


def frame(line: int, filename: str = "/home/someone/train.py") -> dict[str, Any]:
    return {"filename": filename, "line": line, "name": "forward"}


class TorchRecord:
    """Writes what PyTorch's allocator would have recorded, event by event."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.segments: list[dict[str, Any]] = []

    def event(self, action: str, addr: int, size: int, stream: int = 0, **more: Any) -> None:
        time = 1_700_000_000_000_000 + len(self.events)
        self.events.append(
            {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": time, "frames": [], **more}
        )

    def alloc(self, addr: int, size: int, stream: int = 0, **more: Any) -> None:
        self.event("alloc", addr, size, stream, **more)

    def free(self, addr: int, size: int, stream: int = 0) -> None:
        self.event("free_requested", addr, size, stream)
        self.event("free_completed", addr, size, stream)

    def segment(self, address: int, blocks: list[tuple[int, int, str]], stream: int = 0, **more: Any) -> None:
        """A segment at the end; blocks are (size, requested, state) and tile it."""
        at, written = address, []
        for size, requested, state in blocks:
            written.append({"address": at, "size": size, "requested_size": requested, "state": state, "frames": []})
            at += size
        total = at - address
        kind = "small" if total <= 2 * MIB else "large"
        self.segments.append(
            {"device": 0, "address": address, "total_size": total, "stream": stream, "segment_type": kind,
             "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": written, **more}
        )  # fmt: skip

    def snapshot(self) -> dict[str, Any]:
        return {
            "segments": self.segments,
            "device_traces": [self.events],
            "allocator_settings": {"expandable_segments": False, "roundup_power2_divisions": {"1": 0}},
            "external_annotations": [],
        }


def small_record() -> TorchRecord:
    """One segment; two allocations, of which one is freed, and one that was there before."""
    record = TorchRecord()
    frames = [frame(1, "/usr/lib/c10.cpp"), frame(12), frame(13)]
    record.event("segment_alloc", BASE, 2 * MIB)
    record.alloc(BASE, 1000, frames=frames)
    record.alloc(BASE + 1024, 512, frames=frames)
    record.free(BASE, 1000)
    record.free(BASE + 4096 * MIB, 300)
    record.segment(BASE, [(1024, 1000, "inactive"), (512, 512, "active_allocated"), (2 * MIB - 1536, 0, "inactive")])
    return record


TEXT = """\
# two streams
s 1
a 0 1000 0
a 1 4096 1   # the second
r 1 0
f 1
d 1
f 0 1
y
e
"""
RMM = """\
Thread,Time,Action,Pointer,Size,Stream
17,23:59:59.000001,allocate,0x7f0000000000,1024,0x0
17,23:59:59.000002,allocate failure,(nil),99999999999,0x0
18,00:00:00.000003,free,0x7f0000000000,1024,0x2
"""


@pytest.fixture
def record() -> TorchRecord:
    """An empty record of PyTorch's."""
    return TorchRecord()


@pytest.fixture
def load(tmp_path: Path) -> Any:
    """Writes something to a file and loads it: bytes, text, or an object to pickle."""

    def load_content(content: Any, name: str = "file", **options: Any) -> Trace:
        path = tmp_path / name
        if isinstance(content, str):
            path.write_text(content)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            snapshot = content.snapshot() if isinstance(content, TorchRecord) else content
            path.write_bytes(pickle.dumps(snapshot, protocol=4))
        return Trace.load(path, **options)

    return load_content


@pytest.fixture(scope="session")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """One small valid file of each format."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "text").write_text(TEXT)
    trace = Trace.load(folder / "text")
    Trace(
        trace.op, trace.id, trace.bytes, trace.stream, time=range(len(trace)), tag=[0] * len(trace), tags=["x"],
        metadata={"model": "m"},
    ).save(folder / "file.npz")  # fmt: skip
    snapshot = small_record().snapshot()
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, packed, mtime=0) as file:
        file.write(TEXT.encode())
    return {
        "text": TEXT.encode(),
        "npz": (folder / "file.npz").read_bytes(),
        "RMM": RMM.encode(),
        "snapshot, protocol 4": pickle.dumps(snapshot, protocol=4),
        "snapshot, protocol 2": pickle.dumps(snapshot, protocol=2),
        "list of segments": pickle.dumps(snapshot["segments"], protocol=5),
        "gzip": packed.getvalue(),
    }
