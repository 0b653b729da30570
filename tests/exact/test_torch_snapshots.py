"""Snapshots of a whole PyTorch that runs out of memory without a GPU; skipped where no build of it is at hand.

MEMLAKE_PEERLAB names the folder of the build, with `fakerun.sh` and an environment `vt` that has torch.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

import memlake
from memlake.trace.live_set import live_after

MIB = 2**20
JOB = Path(__file__).parents[1] / "helpers" / "torch_job.py"


@pytest.fixture
def snapshot_of(tmp_path):
    folder = Path(os.environ.get("MEMLAKE_PEERLAB", "/nowhere"))
    if not (folder / "vt" / "bin" / "python").exists():
        pytest.skip("no whole PyTorch: MEMLAKE_PEERLAB does not name a folder with vt/bin/python")

    def run(kind, conf=""):
        """Returns the trace and what PyTorch said."""
        path = tmp_path / "snapshot.pickle"
        done = subprocess.run(
            [folder / "fakerun.sh", folder / "vt" / "bin" / "python", JOB, kind, path],
            env=os.environ | {"FAKE_CUDA_BYTES": "512m", "FAKE_CUDA_DEVICES": "2", "PYTORCH_ALLOC_CONF": conf},
            capture_output=True,
            text=True,
            check=True,
        )
        return memlake.Trace.load(path), done.stdout

    return run


def mib(pattern, text):
    return float(re.search(rf"([\d.]+) MiB {pattern}", text)[1])


@pytest.mark.parametrize("conf", ["", "expandable_segments:True", "max_split_size_mb:64"])
@pytest.mark.parametrize("kind", ["one device", "two devices"])
def test_a_replay_dies_where_pytorch_died(snapshot_of, kind, conf):
    trace, said = snapshot_of(kind, conf)
    assert trace.history.kind == "complete"
    assert trace.settings.policy.to_text() == conf.replace("expandable_segments:True", "")
    assert trace.oom.device_free / MIB == pytest.approx(mib("is free", said), abs=0.01)
    assert trace.oom.capacity == 512 * MIB
    comparison = memlake.compare(trace)
    own = comparison[0]
    assert own.options == trace.settings.policy
    assert own.failed_event == trace.oom.row
    assert own.failure.free / MIB == pytest.approx(mib("is reserved by PyTorch but unallocated", said), abs=0.01)
    assert own.failure.held == trace.oom.held


def test_a_private_pool_that_holds_back_memory_is_named(snapshot_of):
    trace, said = snapshot_of("private pool")
    assert "allocated in private pools" in said
    comparison = memlake.compare(trace)
    assert any("in 1 private pool" in note for note in comparison.notes)
    assert comparison[0].outcome in ("oom", "unknown")


@pytest.mark.parametrize(("kind", "history"), [("late", "warm"), ("ring", "cut")])
def test_a_history_without_its_beginning_is_known_as_such(snapshot_of, kind, history):
    trace, _ = snapshot_of(kind)
    assert trace.history.kind == history
    assert memlake.compare(trace, "2GiB").reproduction.is_exact


def test_two_snapshots_of_one_process_show_what_is_still_live(snapshot_of, tmp_path):
    later, _ = snapshot_of("twice")
    before = memlake.Trace.load(tmp_path / "snapshot.pickle.before")
    found = memlake.diff(before, later).still_live
    assert found.is_known
    # The later history is complete, so its own rows tell the same: what was allocated before a row and never freed.
    still_live = [row for row in live_after(later, len(later) - 1).born.tolist() if row < len(before)]
    assert found.count == len(still_live) > 0
    assert found.count_freed > 0
    again, _ = snapshot_of("twice")
    assert not memlake.diff(before, again).still_live.is_known
